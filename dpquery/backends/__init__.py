"""What runs private plans over rows: the interface in `base.py`, and DuckDB."""
