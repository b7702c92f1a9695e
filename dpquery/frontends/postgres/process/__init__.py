"""Engines in processes of their own: the worker there; the supervisor of one, the pool of all, and the log here."""
