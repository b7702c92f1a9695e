"""A session over the stages: the pipeline, plans for people and kept plans, prices, profiles, suggested bounds."""
