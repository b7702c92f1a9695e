"""Private plans, relations and expressions as DuckDB's SQL: text only, nothing here runs it."""
