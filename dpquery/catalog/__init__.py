"""What the data owner declares, in YAML or Python: tables, privacy unit, bounds, public keys, budgets."""

from dpquery.catalog.model import Catalog
from dpquery.catalog.tables import ColumnDeclaration, Defaults, Table

__all__ = ["Catalog", "ColumnDeclaration", "Defaults", "Table"]
