"""PostgreSQL's system catalogs, emulated from the declarations in a database of its own that never sees private data."""
