"""What is compared: a private query, and the plain one over the same table in the same engine."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A private query and its plain counterpart.

    Attributes:
        name: For the report.
        unit_is_row: Which catalog the private query runs under.
        private, plain: The two texts; the plain one knows no users.
        limit: The ratio that is aimed at, or None.
    """

    name: str
    unit_is_row: bool
    private: str
    plain: str
    limit: float | None


def both(keys: str) -> str:
    """Returns COUNT and SUM by the keys."""
    return f"SELECT {keys}, COUNT(*) AS n, SUM(amount) AS s FROM visits GROUP BY {keys}"


CASES = [
    Case(
        name="row-level grand total",
        unit_is_row=True,
        private="SELECT COUNT(*) AS n, SUM(amount) AS s FROM visits",
        plain="SELECT COUNT(*), SUM(amount) FROM visits",
        limit=None,
    ),
    Case(
        name="row-level by region",
        unit_is_row=True,
        private=both("region"),
        plain=both("region"),
        limit=1.5,
    ),
    Case(
        name="row-level by region and product",
        unit_is_row=True,
        private=both("region, product"),
        plain=both("region, product"),
        limit=1.5,
    ),
    Case(
        name="user-level by region",
        unit_is_row=False,
        private=both("region"),
        plain=both("region"),
        limit=1.5,
    ),
    Case(
        name="user-level by region and product",
        unit_is_row=False,
        private=both("region, product"),
        plain=both("region, product"),
        limit=1.5,
    ),
    Case(
        name="row-level median",
        unit_is_row=True,
        private="SELECT MEDIAN(amount) AS m FROM visits",
        plain="SELECT quantile_disc(amount, 0.5) FROM visits",
        limit=None,
    ),
]

MANY_GROUPS = Case(
    name="50,000 groups x 3 aggregates",
    unit_is_row=True,
    private="SELECT region, product, COUNT(*) AS n, SUM(amount) AS s, SUM(qty) AS q FROM visits GROUP BY 1, 2",
    plain="SELECT region, product, COUNT(*), SUM(amount), SUM(qty) FROM visits GROUP BY ALL",
    limit=None,
)
