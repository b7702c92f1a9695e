"""Backends by name: DuckDB, Spark, and those of other packages, by the entry points `dpquery.backends`.

A backend holds the private rows and is believed to compute what the private plan says. So it is part of what is trusted
(docs/concepts/privacy-promise.md): nothing is loaded that was not named, and no package takes another's name.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec

from dpquery.backends.base import Backend
from dpquery.backends.resources import Resources
from dpquery.catalog import Catalog
from dpquery.catalog.names import shown, suggestion
from dpquery.data.prepared import PreparedTable
from dpquery.errors import BackendError, CatalogError, DPQueryError

GROUP = "dpquery.backends"
DEFAULT, SPARK = "duckdb", "spark"
SHIPPED = {
    DEFAULT: EntryPoint(DEFAULT, "dpquery.backends.duckdb.backend:DuckDBBackend", GROUP),
    SPARK: EntryPoint(SPARK, "dpquery.backends.spark.backend:SparkBackend", GROUP),
}
"""Known without a look at what is installed: an entry point of one of these names is never loaded."""
OWED = ("check", "prepare", "run", "close", "evaluate", "gaps", "rows", "most_equal", "public_rows", "unique")


def open_backend(
    catalog: Catalog, sources: Mapping[str, object], *, name: str | None = None, resources: Resources | None = None
) -> Backend:
    """Returns the backend that was chosen, over tables.

    Args:
        name: What the caller says; None leaves it to the catalog, which means where it says nothing Spark for frames of
            Spark, and else DuckDB.
    Raises:
        CatalogError: The catalog says another name, nothing installed has it, or data contradict the declarations.
        BackendError: What has the name is not a backend, or could not be opened.
    """
    if name is not None and catalog.backend is not None and name != catalog.backend:
        raise CatalogError(
            f"the catalog chooses the backend {catalog.backend}, and {shown(name)} was asked for; change one of them"
        )
    chosen = name or catalog.backend or (SPARK if any(map(is_of_spark, sources.values())) else DEFAULT)
    if chosen not in SHIPPED and any(isinstance(source, PreparedTable) for source in sources.values()):
        known = " and ".join(SHIPPED)
        raise CatalogError(f"prepared data are read by {known}, and {shown(chosen)} was chosen; give it the sources")
    if chosen == SPARK and find_spec("pyspark") is None:
        raise CatalogError("the backend spark needs pyspark: pip install 'dpquery[spark]'")
    found = SHIPPED.get(chosen) or _installed(chosen)
    failure = ""
    try:
        backend: Backend = found.load()(catalog, sources, resources=resources or Resources())
    except DPQueryError:
        raise
    except Exception as error:  # of another package, whose words may quote data
        failure = type(error).__name__
    if failure:  # raised out here, so that the first error is not its context
        raise BackendError(f"the backend {chosen} could not be opened: {failure}")
    if missing := [part for part in OWED if not hasattr(backend, part)]:
        raise BackendError(f"the backend {chosen} has no {missing[0]}, which every backend owes: see `Backend`")
    return backend


def is_of_spark(source: object) -> bool:
    """Whether a source is a frame of Spark, told without pyspark."""
    return type(source).__module__.split(".")[0] == "pyspark"


def _installed(name: str) -> EntryPoint:
    """Returns the entry point of a backend of another package, which is not loaded by this."""
    installed = entry_points(group=GROUP)
    found = [entry for entry in installed if entry.name == name]
    if not found:
        advice = suggestion(name, sorted({*SHIPPED, *installed.names}))
        raise CatalogError(f"no backend {shown(name)} is installed; {advice}")
    if len(found) > 1:
        packages = sorted(entry.dist.name if entry.dist else "unknown" for entry in found)
        raise CatalogError(f"several packages have a backend {shown(name)}: {', '.join(packages)}; remove all but one")
    return found[0]
