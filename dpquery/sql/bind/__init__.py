"""Parsed tree plus catalog to a logical plan, clause by clause, split at the privacy boundary."""
