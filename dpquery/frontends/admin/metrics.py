"""The owner's figures in the text form that Prometheus reads."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from dpquery.errors import LedgerError
from dpquery.frontends.admin.accounts import PARTS
from dpquery.frontends.admin.observed import Observed
from dpquery.frontends.admin.overview import Watch


def metrics(watch: Watch, server: Observed) -> bytes:
    """Returns all metrics, the server's own included, in the Prometheus text format 0.0.4."""
    registry = CollectorRegistry()
    registry.register(_Figures(watch))
    return generate_latest(registry) + server.metrics.encode()


class _Figures(Collector):
    def __init__(self, watch: Watch) -> None:
        self._watch = watch

    def collect(self) -> Iterator[Metric]:
        yield from self._budgets()
        verified = self._watch.verified
        whole = "1 if the last check of every entry of the ledger found it unbroken."
        yield GaugeMetricFamily("dpquery_ledger_verified", whole, float(verified.entries is not None))

    def _budgets(self) -> Iterator[Metric]:
        """Yields limits and what was spent; nothing but `readable` where the ledger cannot be read."""
        try:
            accounts = self._watch.accounts()
        except LedgerError:
            accounts = []
        readable = GaugeMetricFamily("dpquery_ledger_readable", "1 if the ledger could be read.", float(bool(accounts)))
        yield readable
        labels = ["analyst", "part"]
        limits = GaugeMetricFamily(
            "dpquery_budget_limit", "What may be spent; analyst '' is all together.", labels=labels
        )
        spent = GaugeMetricFamily("dpquery_budget_spent", "What was spent; analyst '' is all together.", labels=labels)
        for name, most, used, _ in accounts:
            for part in PARTS:
                if getattr(most, part):
                    limits.add_metric([name or "", part], float(getattr(most, part)))
                    spent.add_metric([name or "", part], float(getattr(used, part)))
        yield limits
        yield spent
