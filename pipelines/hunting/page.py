"""A hunt as one HTML page: coverage by kind of message and status, what was never reached, and findings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from pipelines.errors import plural
from pipelines.hunting.coverage import FATES, reached
from pipelines.hunting.findings import Hunt

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem;
  color: #1b1b1b; background: #fff; }
table { border-collapse: collapse; margin: 1rem 0; display: block; overflow-x: auto; }
th, td { border: 1px solid #c8c8c8; padding: .25rem .6rem; text-align: left; vertical-align: top; }
td.none { background: #f3d9d3; } td.some { background: #dcecdc; } code { overflow-wrap: anywhere; }
@media (prefers-color-scheme: dark) {
  body { color: #e6e6e6; background: #161616; } th, td { border-color: #444; }
  td.none { background: #5a2a22; } td.some { background: #24452a; }
}
"""


def page(hunt: Hunt) -> str:
    """Returns the page; it loads nothing."""
    heading = f"Hunt: {hunt.scenario} ({hunt.protocol})"
    parts = [_counts(hunt), _findings(hunt), _again(hunt), _coverage(hunt), _others(hunt)]
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(heading)}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{_STYLE}</style></head><body><h1>{escape(heading)}</h1>{''.join(parts)}</body></html>\n"
    )


def _counts(hunt: Hunt) -> str:
    rows = [
        ("schedules played", f"{hunt.n_played:,} ({hunt.strategy})"), ("seconds", f"{hunt.seconds:,.0f}"),
        ("beyond the bound", f"{hunt.n_beyond:,}"), ("refused by the protocol", f"{hunt.n_refused:,}"),
        ("not decided within the bound", f"{hunt.n_undecided:,}"), ("features reached", f"{len(hunt.features):,}"),
        ("scenarios of the corpus replayed", f"{hunt.n_replayed:,}"),
    ]  # fmt: skip
    return _table(("", ""), rows)


def _findings(hunt: Hunt) -> str:
    if not hunt.findings:
        return f"<h2>Findings</h2><p>None in {plural(hunt.n_played, 'schedule')}.</p>"
    rows = [
        (one.guarantee, one.cause, "; ".join(one.aims), f"{one.n_played:,}", f"{one.n_schedules:,}", one.sizes,
         "" if one.file is None else f"roundtable run {one.file}")
        for one in hunt.findings
    ]  # fmt: skip
    names = ("guarantee", "cause", "aimed at", "found by schedule", "schedules", "smallest scenario", "play it")
    return f"<h2>Findings</h2>{_table(names, rows)}"


def _again(hunt: Hunt) -> str:
    if not hunt.broken_again:
        return ""
    rows = [(str(path), ", ".join(names)) for path, names in hunt.broken_again.items()]
    return f"<h2>Findings of earlier hunts that are not mended</h2>{_table(('scenario', 'breaks'), rows)}"


def _coverage(hunt: Hunt) -> str:
    statuses, table = reached(hunt.features, hunt.kinds)
    head = "".join(f"<th>{escape(name)}</th>" for name in ("kind of message", *statuses))
    rows = "".join(
        f"<tr><th>{escape(kind)}</th>{''.join(_cell(row.get(status, ())) for status in statuses)}</tr>"
        for kind, row in table.items()
    )
    unreached = ", ".join(hunt.unreached) or "none"
    return (
        "<h2>Coverage</h2><p>What became of messages, by kind and by the status of their receiver. An empty cell was "
        f"never reached, so the scenario does not test it.</p><table><tr>{head}</tr>{rows}</table>"
        f"<p>Kinds that no run sent: {escape(unreached)}.</p>"
    )


def _cell(fates: Iterable[str]) -> str:
    found = [fate for fate in FATES if fate in {*fates}]
    return f'<td class="{"some" if found else "none"}">{escape(", ".join(found))}</td>'


def _others(hunt: Hunt) -> str:
    """Returns the features that are not about one kind of message."""
    named = [one for one in sorted(hunt.features) if one.split(" ")[0] in ("status", "fault", "verdict")]
    return f"<h2>Statuses, faults, verdicts</h2><p>{escape('; '.join(named))}.</p>"


def _table(names: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table>{f'<tr>{head}</tr>' if any(names) else ''}{body}</table>"
