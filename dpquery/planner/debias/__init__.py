"""Aggregates over reports of randomised response as unbiased estimates."""
