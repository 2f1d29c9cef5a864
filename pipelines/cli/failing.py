"""``--fail-on``: what makes a command fail although no guarantee is broken."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING

from pipelines.cli.verdict import wanted
from pipelines.errors import plural

if TYPE_CHECKING:
    from pipelines.audits.run import AuditReport
    from pipelines.result import Result


def failures(result: Result, report: AuditReport, causes: Collection[str]) -> list[str]:
    """Returns which of the causes hold, in words.

    Args:
        result: The store, audited.
        report: What the audit found.
        causes: Of `CAUSES`.
    """
    found = {cause: CAUSES[cause](result, report) for cause in CAUSES if cause in causes}
    return [f"{cause}, {what}" for cause, what in found.items() if what]


def _excused(_: Result, report: AuditReport) -> str:
    number = sum(finding.n_excused or 0 for finding in report.findings)
    return f"{plural(number, 'violation')} excused" if number else ""


def _beyond(_: Result, report: AuditReport) -> str:
    return f"{plural(len(report.beyond), 'run')} beyond the bound" if report.beyond else ""


def _missing(result: Result, _: AuditReport) -> str:
    n_delivered, n_wanted = wanted(result)
    number = n_wanted - n_delivered
    return f"{number:,} of {n_wanted:,} wanted deliveries did not happen" if number else ""


CAUSES: Mapping[str, Callable[[Result, AuditReport], str]] = {
    "excused": _excused,
    "beyond": _beyond,
    "missing": _missing,
}
"""Excused violations; runs beyond the bound; deliveries that subscribers wanted and that did not happen."""
