"""Ranges of columns and aggregates, and contributions of a unit, from what is declared."""
