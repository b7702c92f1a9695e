"""DB-API 2.0 (PEP 249), public as `dpquery.dbapi`, and the dialect of SQLAlchemy."""
