"""Names of functions and aggregates in SQL, and the operations of plans that they mean."""
