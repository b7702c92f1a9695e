"""Logical plan to private plan: contribution bounds, weights, keys and measurements become parts of the plan."""
