"""The owner's figures in the text form that Prometheus reads."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from dpquery.errors import LedgerError
from dpquery.frontends.accounts import PARTS
from dpquery.frontends.admin.overview import Watch
from dpquery.frontends.admin.tally import Tally


def metrics(watch: Watch, tally: Tally) -> bytes:
    """Returns all metrics, in the Prometheus text format 0.0.4."""
    registry = CollectorRegistry()
    registry.register(_Figures(watch, tally))
    return generate_latest(registry)


class _Figures(Collector):
    def __init__(self, watch: Watch, tally: Tally) -> None:
        self._watch, self._tally = watch, tally

    def collect(self) -> Iterator[Metric]:
        yield from self._budgets()
        verified = self._watch.verified
        whole = "1 if the last check of every entry of the ledger found it unbroken."
        yield GaugeMetricFamily("dpquery_ledger_verified", whole, float(verified.entries is not None))
        yield GaugeMetricFamily("dpquery_connections", "Open connections.", self._tally.connections)
        answers = CounterMetricFamily("dpquery_answers", "Answers, by whether they were charged.", labels=["price"])
        for price, count in sorted(self._tally.answers.items()):
            answers.add_metric([price], count)
        yield answers
        refusals = CounterMetricFamily(
            "dpquery_refusals", "Requests that were refused, by SQLSTATE.", labels=["sqlstate"]
        )
        for state, count in sorted(self._tally.refusals.copy().items()):
            refusals.add_metric([state], count)
        yield refusals

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
