"""`dpquery audit`, whether an installation does what its catalog promises, and `dpquery meaning`, what that is."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpquery.cancelling.interrupting import interruptible_work
from dpquery.errors import CatalogError
from dpquery.frontends.cli.answer import say
from dpquery.frontends.cli.options import LOSS, LedgerFile, Sources, opt, takes
from dpquery.frontends.opening import find_data, is_url, ledger_beside, open_ledger

if TYPE_CHECKING:
    from dpquery.auditing.report import Report, Section
    from dpquery.catalog import Catalog

PAIRS, ANSWERS, SAMPLES = 2_000, 500, 200_000
_QUERIES = "Queries to audit, apart by semicolons; by default some that follow from the catalog."
_MECHANISM = "Audit a law of noise or an accountant of one's own, and no catalog."
_RECORD = "Where the audit of a law is recorded if nothing is found; by default MODULE.NAME.audit.json."
_LOOK = "Compare declarations with the data; the report is then for the owner."


def audit(
    catalog: Annotated[Path | None, typer.Argument(metavar="[CATALOG]", help="The catalog, a YAML file.")] = None,
    queries: Annotated[Path | None, opt("--queries", "FILE", _QUERIES)] = None,
    from_log: Annotated[bool, opt("--from-log", None, "Audit the queries that the ledger was charged for.")] = False,
    source: Sources = None,
    ledger: LedgerFile = None,
    look: Annotated[bool, opt("--look", None, _LOOK)] = False,
    pairs: Annotated[int, opt("--pairs", "N", "Pairs of made-up neighbours under a query, at least.")] = PAIRS,
    answers: Annotated[int, opt("--answers", "N", "Noisy answers on each side of a pair; 0 for none.")] = ANSWERS,
    first: Annotated[int, opt("--first", "N", "The number of the first made-up world of neighbours.")] = 0,
    html: Annotated[Path | None, opt("--html", "FILE", "Write the report as one page, to be read by others.")] = None,
    as_json: Annotated[bool, opt("--json", None, "Print JSON.")] = False,
    strict: Annotated[bool, opt("--strict", None, "Exit with 1 for risks of the catalog as well.")] = False,
    mechanism: Annotated[str | None, opt("--mechanism", "MODULE:NAME", _MECHANISM)] = None,
    samples: Annotated[int, opt("--samples", "N", "Samples of an own law for each loss.")] = SAMPLES,
    record: Annotated[Path | None, opt("--record", "FILE", _RECORD)] = None,
) -> None:
    """Check that an installation does what its catalog promises. Charges nothing; reads private rows only with --look.

    With --mechanism and no catalog, check a law of noise or an accountant of one's own, for use once nothing is found.

    Exit code 0: nothing contradicts the promise. 1: something does. 2: the audit could not be made.
    """
    if (catalog is None) is (mechanism is None):
        raise typer.BadParameter("name a CATALOG, or a law of noise with --mechanism")
    if catalog is None:
        report = _own_law(mechanism or "", samples, record)
    else:
        report = _installation(catalog, queries, from_log, source, ledger, look, pairs, answers, first)
    typer.echo(json.dumps(report.to_dict(), indent=2, ensure_ascii=False) if as_json else str(report))
    if html is not None:
        report.to_html(html)
        say(f"[written to {html}]")
    if not report.is_clean or (strict and report.risks):
        raise ContradictionFound


def _own_law(name: str, samples: int, record: Path | None) -> Report:
    """Returns the audit of a law or an accountant, recorded if nothing was found. Its module may lie in the working
    directory."""
    from dpquery.auditing.own_accountants import audit_accountant
    from dpquery.auditing.own_laws import audit_law
    from dpquery.mechanisms.own_source import is_accountant

    sys.path.insert(0, os.getcwd())
    report, audit = audit_accountant(name) if is_accountant(name) else audit_law(name, samples=samples)
    place = record or Path(f"{name.replace(':', '.')}.audit.json")
    if audit is not None:
        audit.write(place)
        say(f"[recorded in {place}]")
    return report


def _installation(
    catalog: Path,
    queries: Path | None,
    from_log: bool,
    source: list[str] | None,
    ledger: str | None,
    look: bool,
    pairs: int,
    answers: int,
    first: int,
) -> Report:
    from dpquery.auditing.run import audit as audited
    from dpquery.catalog import Catalog

    declared = Catalog.load(catalog)
    with contextlib.ExitStack() as stack:
        stack.enter_context(interruptible_work())
        place = _ledger(declared, catalog, ledger, needed=from_log)
        opened = None if place is None else stack.enter_context(contextlib.closing(open_ledger(place)))
        found, problems = find_data(declared, catalog.parent, source or ())
        if problems and (look or source):
            raise CatalogError(problems)
        if isinstance(found, str):
            from dpquery.session.preparing import sources_of

            if opened is None:
                raise CatalogError("prepared data are read with their ledger; name it with --ledger")
            found = dict(sources_of(declared, found, opened))  # type: ignore[arg-type]
        return audited(
            declared,
            sources=found,
            ledger=opened,
            queries=None if queries is None else queries.read_text(encoding="utf-8-sig"),
            from_log=from_log,
            look=look,
            pairs=pairs,
            answers=answers,
            first=first,
            tell=_tell,
        )


class ContradictionFound(SystemExit):
    """Something contradicts a promise: the exit code is 1, not that of an interruption."""


def _tell(section: Section) -> None:
    found = len(section.violations)
    say(f"[{section.name}: {'nothing contradicts the promise' if not found else f'{found} found'}]")


def _ledger(catalog: Catalog, path: Path, given: str | None, *, needed: bool) -> str | Path | None:
    """Returns the ledger's place: as given, or beside the catalog, if it is there or needed."""
    if given is not None:
        return given
    if Path(catalog.dataset).name != catalog.dataset and not needed:
        return None
    place = ledger_beside(catalog, path)
    return place if needed or is_url(place) or place.exists() else None


@takes(LOSS)
def meaning(
    catalog: Annotated[Path | None, opt("--catalog", "CATALOG", "Show its budget and that of each analyst.")] = None,
    relatives: Annotated[int, opt("--relatives", "K", "How many relatives count together.")] = 1,
    html: Annotated[Path | None, opt("--html", "FILE", "Write a page with the curves.")] = None,
    **asked: str | None,
) -> None:
    """Print what a loss means for one person: attackers' errors, beliefs before and after, relatives, deployments."""
    from dpquery.accounting import loss
    from dpquery.catalog import Catalog
    from dpquery.frontends import meaning as shown

    given = {name: amount for name, amount in asked.items() if amount is not None}
    if not given.keys() & {"epsilon", "rho"} and catalog is None:
        raise typer.BadParameter("give --epsilon or --rho, or a --catalog")
    if relatives < 1:
        raise typer.BadParameter("--relatives is at least 1")
    others = [] if catalog is None else shown.accounts_of(Catalog.load(catalog))
    own = [shown.Account(name="asked", loss=loss(**given))] if given else []
    accounts = [*own, *others]
    typer.echo(shown.text(accounts[0], count=relatives, others=others))
    if html is not None:
        alike = [shown.together(accounts[0], relatives)] if relatives > 1 else []
        html.write_text(shown.page([*accounts, *alike], "What an epsilon means"), encoding="utf-8")
        say(f"[written to {html}]")
