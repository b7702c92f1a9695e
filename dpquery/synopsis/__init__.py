"""Synopses: for one price a table of synthetic rows that any SQL may read, made of noisy marginals alone."""
