"""What the entry point of the package does where it is installed: pages may name the SQLAlchemy dialect."""

from __future__ import annotations

from sqlalchemy.dialects import registry

registry.register("dpquery", "dpquery.frontends.dbapi.sqlalchemy_dialect", "DPQueryDialect")
