"""PostgreSQL's system catalogs, emulated from the declarations in an engine that never sees private data."""
