"""Local privacy: `dpquery.local.randomize(values, epsilon, categories)` hides values before they are collected."""

from dpquery.frontends.randomize import randomize

__all__ = ["randomize"]
