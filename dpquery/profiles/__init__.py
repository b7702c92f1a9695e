"""Profiles: how many rows units have, and how values lie against their bounds, bought once for each data version."""
