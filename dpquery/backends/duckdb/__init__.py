"""The embedded engine: DuckDB in a locked process, its statements, tables read as declared, row weights."""
