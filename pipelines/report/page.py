"""Collects the content of a report from a store, and writes it as one HTML file with data, scripts and style.

The file sends no requests. A notebook can also display the page.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from string import Template
from typing import Any

from pipelines.errors import RoundtableError
from pipelines.experiment.manifest import Manifest
from pipelines.files import remembered
from pipelines.inputs.overlay.files import node_positions
from pipelines.report.measures import MOST_BARS, measures
from pipelines.report.pictures import CONFIG, asset, specification, vega
from pipelines.report.replay import MOST_MESSAGES, WHOLE, Span, replay
from pipelines.report.states import state_sizes, states
from pipelines.report.summary import MOST_RUNS, chosen_runs, losses, overlaid, run_rows, studies, summary
from pipelines.sql.errors import readable_errors
from pipelines.sql.query import StoreReader
from pipelines.store.roots import Root, check_target, write_whole, writing
from pipelines.why.overview import PREDICATES

NAME = "report.html"
_ANOTHER = "name another with --out"
STYLE = "page.css"
PROGRAMS = (
    "common.js", "verdict.js", "zoom.js", "replay.js", "space_time.js", "measures.js", "losses.js", "studies.js",
    "overlaid.js", "page.js",
)  # fmt: skip
"""The scripts of the page, in the order of loading."""
_ESCAPED = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
NODE_FIELDS = frozenset((
    "a", "acked", "acknowledged", "answered", "answers", "approach", "asked", "askers", "assistant", "awaited", "b",
    "below", "broker", "brokers", "client", "clients", "contact", "covered", "dead", "declined", "dst", "edge",
    "expected", "failed", "fanout", "first_hop", "from", "gone", "heard", "holders", "initiator", "join_point",
    "joiner", "lacking", "late", "leaving", "left", "lost_parent", "members", "mesh", "neighbour", "next_hop", "node",
    "node_id", "origin", "origin_path", "owner", "parent", "partner", "path", "peer", "peers", "publisher", "receiver",
    "recipient", "registered", "repository", "responsible", "sender", "sent", "source", "src", "steering", "subscriber",
    "supervisor", "target", "to", "waiting", "way",
))  # fmt: skip
"""The fields that contain a node id or a list of node ids; the page shows node names instead."""
MESSAGE_FIELDS = frozenset(("added_trigger", "message_id", "removed_trigger", "trigger"))
"""The fields that contain a message id; the page describes the message instead."""


def gather(reader: StoreReader, root: Root, named: Sequence[int] = (), span: Span = WHOLE) -> dict[str, Any]:
    """Returns the content of a report as a JSON-serialisable dict.

    ``named`` lists the runs that are shown message by message; if it is empty, `summary.chosen_runs` selects them.
    ``span`` selects the rounds of these runs.

    Raises:
        QueryError: The store has no such run, or the run has no such round.
    """
    manifest = Manifest.read(root)
    with readable_errors():
        rows = run_rows(reader)
        chosen = chosen_runs(rows, named)
        by_id = {row["run_id"]: row for row in rows}
        runs = [by_id[run_id] | {"why": why} for run_id, why in chosen.items()]
        replays = _replayed(reader, manifest, runs, span)
        found, study = summary(reader, rows), studies(reader, rows)
        lines = overlaid(reader, list(chosen), rows)
    charts = {name: specification(name) for name in ("space_time", "measures", "study")}
    left_out = [*_runs_left_out(rows, chosen, root), *_rounds_left_out(replays), *_told_left_out(replays, study, root)]
    return {
        "scenario": rows[0]["scenario"], "protocol": ", ".join(reader.protocols), "store": str(root),
        "text": manifest.text, "overrides": list(manifest.overrides), "start": "verdict",
        "node_fields": sorted(NODE_FIELDS), "message_fields": sorted(MESSAGE_FIELDS), "summary": found,
        "study": study, "overlaid": lines, "specifications": charts | {"config": CONFIG}, "replays": replays,
        "left_out": left_out,
    }  # fmt: skip


def _replayed(
    reader: StoreReader, manifest: Manifest, runs: Sequence[dict[str, Any]], span: Span
) -> list[dict[str, Any]]:
    replays = [replay(reader, run, span, places(manifest, run["run_id"])) for run in runs]
    ids = [run["run_id"] for run in runs]
    spans = {run_id: Span(one["first"], one["last"]) for run_id, one in zip(ids, replays, strict=True)}
    ends = {run_id: one["end"] for run_id, one in zip(ids, replays, strict=True)}
    sizes = state_sizes(reader, ends, spans)
    held, measured = states(reader, spans, sizes), measures(reader, ends, sizes=sizes)
    lost = losses(reader, ids)
    return [
        one | {"state": held[run_id], "losses": lost[run_id], "measures": measured[run_id]}
        for run_id, one in zip(ids, replays, strict=True)
    ]


def places(manifest: Manifest, run_id: int) -> Mapping[str, tuple[float, float]]:
    """Returns longitude and latitude of a run's nodes, by name.

    The result is empty if the overlay file has no coordinates or no longer exists.
    """
    prepared = manifest.prepared()
    spec = next(run.scenario.overlay for run in prepared.runs if run.run_id == run_id)
    try:
        with remembered(manifest.found()):
            return node_positions(spec, prepared.beside)
    except RoundtableError:
        return {}


def _runs_left_out(rows: Sequence[dict[str, Any]], chosen: Mapping[int, str], root: Root) -> Iterator[str]:
    if len(rows) > len(chosen):
        number = f"the replays of {len(rows) - len(chosen):,} of {len(rows):,} runs"
        yield f"{number}; {_command('report', root)} --run R selects run R, and --run may be repeated"
    if len(rows) > MOST_RUNS:
        yield f"the runs after the first {MOST_RUNS:,} in the table of runs; view run_summary has all runs"


def _command(name: str, root: Root) -> str:
    return f"roundtable {name} {shlex.quote(str(root))}"


def _rounds_left_out(replays: Sequence[dict[str, Any]]) -> Iterator[str]:
    for one in replays:
        name, state = f"run {one['run']['run_id']}", one["state"]
        if one["is_cut"]:
            n_kept = len(one["message"]["message_id"])
            yield (
                f"{one['n_messages'] - n_kept:,} of {one['n_messages']:,} messages of {name}; the replay draws up to "
                f"{MOST_MESSAGES:,}, of rounds {one['first']:,} to {one['last']:,}; --rounds A:B selects other rounds"
            )
        shown = one["measures"]
        if len(shown["nodes"]) >= 2 * MOST_BARS or len(shown["links"]) >= MOST_BARS:
            bars = f"{name}: the bars of all nodes and links except the {MOST_BARS} busiest"
            yield f"{bars}; views node_load and link_load have all nodes and links"
        if len(state["commits"]) < state["n_commits"]:
            n_omitted = state["n_commits"] - len(state["commits"])
            omitted = f"{name}: states of nodes at {n_omitted:,} of {state['n_commits']:,} commits"
            yield f"{omitted}; --rounds A:B shows more commits of fewer rounds"
        if state["gone"]:
            rounds = ", ".join(map(str, state["gone"]))
            yield f"{name}: states of nodes at the end of rounds {rounds}, as VACUUM removed their files"
        if state["left_out"]:
            yield f"{name}: tables {', '.join(state['left_out'])}, which have too many rows; --rounds A:B selects fewer"


def _told_left_out(replays: Sequence[dict[str, Any]], study: Mapping[str, Any], root: Root) -> Iterator[str]:
    why = _command("why", root)
    for one in replays:
        command = f"{why} --run {one['run']['run_id']}"
        for what, number in one["losses"]["left_out"].items():
            yield f"stories of {number:,} more deliveries that {PREDICATES[what]}; {command} groups them by cause"
    if study["n_left_out"]:
        yield f"{study['n_left_out']:,} combinations of the study; view result_summary has all"


def write_report(reader: StoreReader, root: Root, runs: Sequence[int], span: Span, out: Path | None) -> Root:
    """Writes the report of a store to ``out``, or to ``report.html`` in the store's folder; returns the path.

    ``runs`` and ``span`` are the parameters ``named`` and ``span`` of `gather`. The file is never incomplete.

    Raises:
        QueryError: The store has no such run or round, or the file cannot be written.
    """
    path = out if out is not None else root / NAME
    with writing(path, _ANOTHER):
        check_target(path)
    data = gather(reader, root, runs, span)
    with writing(path, _ANOTHER):
        write_whole(path, page(data, f"{data['scenario']} - Roundtable"))
    return path


@dataclass(frozen=True)
class Replay:
    """A report page that initially shows the replay of a run; notebooks display it without a network connection."""

    html: str

    def _repr_html_(self) -> str:
        style = "width:100%;height:46rem;border:1px solid #8888"
        return f'<iframe title="Replay" style="{style}" srcdoc="{escape(self.html)}"></iframe>'


def replay_of(reader: StoreReader, root: Root, run_id: int, span: Span) -> Replay:
    """Returns the report page of one run, which initially shows the replay; raises the errors of `gather`."""
    data = gather(reader, root, (run_id,), span)
    return Replay(page(data | {"start": "replay"}, f"{data['scenario']}, run {run_id}"))


def page(data: Mapping[str, Any], title: str) -> str:
    """Returns the HTML of a report from the result of `gather`."""
    scripts = (_libraries(), *(asset(name) for name in PROGRAMS))
    programs = "\n".join(f"<script>\n{text}</script>" for text in scripts)
    return Template(asset("page.html")).substitute(
        title=escape(title), style=asset(STYLE), data=embedded(data), programs=programs
    )


def embedded(data: Mapping[str, Any]) -> str:
    """Returns ``data`` as JSON without ``<``, ``>`` and ``&``, so that no string ends the script element."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=str)
    return text.translate({ord(sign): code for sign, code in _ESCAPED.items()})


def _libraries() -> str:
    """Returns the source of Vega, Vega-Lite and Vega-Embed, bundled as one script."""
    bundle: str = vega().javascript_bundle()
    return bundle.replace("</script", "<\\/script")
