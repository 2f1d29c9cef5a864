"""Writes the scenario of ``roundtable init``: a commented template for the user's overlay and workload."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias
from xml.etree import ElementTree as ET

from pipelines.cli.ends import complain
from pipelines.cli.printing import print_lines, unbroken
from pipelines.errors import DataFileError, ScenarioError
from pipelines.experiment.plan import built, check, notes
from pipelines.experiment.prepared import expand_runs
from pipelines.inputs.text_rows import is_link
from pipelines.inputs.timestamps import iso, moments_of
from pipelines.inputs.workload.reading import load
from pipelines.scenario.load import read_scenario
from pipelines.scenario.shape import SCHEMA_FILE
from pipelines.scenario.yaml_text import flow_text
from pipelines.store.roots import write_whole, writing

SCHEMA_LINE = "# yaml-language-server: $schema="
_ENDS = (("src", "source", "from", "a", "node1", "u"), ("dst", "target", "to", "b", "node2", "v"))
_LATENCY = {
    "ms": re.compile(r"(^|_)(ms|delay|latency|rtt)", re.IGNORECASE),
    "km": re.compile(r"(^|_)(km|length|dist)", re.IGNORECASE),
}
_NODE = ("node", "at", "subscriber", "publisher", "client", "user", "userID", "broker", "name")
_TOPIC = ("topic", "channel", "class", "symbol", "artistID", "category")
_WHERE = ("where", "predicate", "filter", "subscription")
_ROUND = ("round", "time_round")
_TIME = ("at_ms", "time_ms", "ms", "timestamp", "time", "ts", "datetime", "date", "seen", "when")
_FIRST_ROUND = 20
"""First round of publications without a time, late enough for subscriptions of round 0 to cross most overlays."""
_ROUND_MS = 10
_PADRES = (".padres", ".tar.xz")
_ENOUGH = 0.5
_SAMPLE = 1_000


_TEXT = """{schema}
# The question of this scenario. `roundtable list scenarios` shows the first line of this comment.
name: {name}

# The protocol: `roundtable list protocols` lists all. Each protocol has settings, with defaults.
protocol: {{name: delta, delta: 1}}   # up to delta brokers may be down at the same time

# The overlay: brokers and links. `roundtable plan` shows the overlay that a file describes.
overlay:
{overlay}

# Subscriptions and publications. An item of a list has the form {{at: NODE, round: 0, topic: news}}.
workload:
  subscriptions:
{subscriptions}
  publications:
{publications}

# Faults: here one broker crashes in a round from 20 to 60, and recovers 10 to 30 rounds later.
faults:
  - {{generate: {{kind: crash, count: 1, rounds: [20, 60], down: [10, 30]}}}}

# The horizon in rounds, at which a run ends at the latest, and the duration of a round in ms.
{origin}

# Each seed with each combination of the grid is a run; the grid can vary any value of this file.
runs:
  seeds: {{count: 5}}
  grid: {{protocol.delta: [0, 1, 2]}}

engine: local   # starts without a JVM; spark is for large jobs
"""
_PUBLISHERS = 3
_TREE = "  generate: {kind: random_tree, nodes: 20, max_degree: 4}"
_GENERATED = {
    "subscriptions": "    generate: {{kind: topics, topics: 5, nodes: all, rounds: [0, 2]}}",
    "publications": "    generate: {{kind: topics, topics: 5, nodes: {publishers}, rounds: [20, 80], rate: 0.2}}",
}
Tables: TypeAlias = Mapping[str, Path | None]
"""The tables with ``subscriptions`` and ``publications``; None for calls that are generated."""


def template(file: Path, overlay: Path | None, tables: Tables, names: Collection[str], *, spread: bool) -> str:
    """Returns the YAML of a commented scenario, which is written to `file`. Its paths are relative to this file.

    Without an overlay file, the overlay is a random tree. A column of `tables` whose values are mostly in `names`, the
    nodes of the overlay, is the node column, even if its title is unknown. If `spread` is set, the subscribers and
    publishers in the tables are distributed over the nodes of the overlay; otherwise each is a node of the overlay.
    """
    beside = file.absolute().parent
    return _TEXT.format(
        schema=f"{SCHEMA_LINE}{os.path.relpath(SCHEMA_FILE, beside)}",
        name=flow_text(re.sub(r"[^A-Za-z0-9_.-]", "_", file.stem).lstrip("_.-") or "scenario"),
        overlay=_TREE if overlay is None else _overlay(overlay, beside),
        **{what: _calls(what, tables, beside, names, spread=spread) for what in tables},
        origin=_origin(tables, names),
    )


def _overlay(path: Path, beside: Path) -> str:
    settings: dict[str, Any] = {"path": _relative(path, beside)}
    others: list[str] = []  # the columns or edge attributes other than the two ends
    if path.suffix.lower() in (".csv", ".tsv", ".parquet", ".pq"):
        columns, *rows = _rows(path)
        if len(columns) < 2:
            raise DataFileError(f"{path} has the columns {', '.join(columns)}; a link needs two ends")
        ends = [_first(columns, names) for names in _ENDS]
        is_text = path.suffix.lower() in (".csv", ".tsv")
        if None not in ends or not is_text or not is_link(columns, rows):
            ends = ends if None not in ends else [*columns[:2]]
            settings |= {key: str(end) for key, end in zip(("src", "dst"), ends, strict=True) if end != key}
            others = [column for column in columns if column not in ends]
    elif path.suffix.lower() == ".graphml":
        others = _edge_attributes(path)
    for unit, pattern in _LATENCY.items():
        found = next((column for column in others if pattern.search(column)), None)
        if found is not None:
            settings |= {"latency": found, "latency_unit": unit}
            break
    told = "" if "latency" in settings else "   # latency: COLUMN or edge attribute; latency_unit: us, ms, s or km\n"
    return f"{told}  file: {flow_text(settings)}   # tree and root select a spanning tree of a graph with cycles"


def _relative(path: Path, beside: Path) -> str:
    return os.path.relpath(path.absolute(), beside)


def _calls(what: str, tables: Tables, beside: Path, names: Collection[str], *, spread: bool) -> str:
    """Returns the YAML of the calls ``what``.

    Calls without a table have the topics of the other table. If this table is missing or has no topics, the calls are
    generated.
    """
    generated = _GENERATED[what].format(publishers=_n_publishers(names))
    (other,) = tables.keys() - {what}
    path, known, is_subscription = tables[what], tables[other], what == "subscriptions"
    if path is not None:
        return _table(path, what, beside, names, spread=spread)
    if known is None:
        return generated
    if is_subscription and _is_padres(known):
        return f"    # The quotes have no topics: write where: \"symbol = 'X'\" into a list.\n{generated}"
    topic = _roles(known, other, names)["topic"]
    if topic is None:
        told = '    # The publications have no column with a topic: write where: "..." into a list.\n'
        return f"{told if is_subscription else ''}{generated}"
    settings: dict[str, Any] = {"path": _relative(known, beside), "node": topic, "topic": topic}
    publishers = {"content": [], "round": _FIRST_ROUND, "nodes": _n_publishers(names)}
    settings |= {"nodes": "all"} if is_subscription else publishers
    told = (
        "subscription to the topic of each publication"
        if is_subscription
        else "publication on the topic of each subscription"
    )
    return f"    # A {told}.\n    file: {flow_text(settings)}"


def _n_publishers(names: Collection[str]) -> int:
    """Returns the number of publishers to draw from `names`, the nodes of the overlay, if the overlay is readable."""
    return min(_PUBLISHERS, len(names) or _PUBLISHERS)


def _origin(tables: Tables, names: Collection[str]) -> str:
    # If the tables have timestamps, round 0 is `_FIRST_ROUND` rounds before the first timestamp.
    firsts = []
    for what, path in tables.items():
        column = None if path is None or _is_padres(path) else _roles(path, what, names)["at_ms"]
        if path is not None and column is not None:
            firsts.append(moments_of(load(path).table[column], None).origin_ms)
    known = [first for first in firsts if first is not None]
    if not known:
        return f"time: {{rounds: 1000, round_ms: {_ROUND_MS}}}"
    text = iso(min(known) - _FIRST_ROUND * _ROUND_MS)
    return (
        f"# The origin is the time of round 0: {_FIRST_ROUND} rounds before the first timestamp, so that subscriptions "
        f'are established.\ntime: {{rounds: 1000, round_ms: {_ROUND_MS}, origin: "{text}"}}'
    )


def _is_padres(path: Path) -> bool:
    return str(path).lower().endswith(_PADRES)


def _table(path: Path, what: str, beside: Path, names: Collection[str], *, spread: bool) -> str:
    settings: dict[str, Any] = {"path": _relative(path, beside)}
    if what == "publications" and _is_padres(path):
        return f"    file: {flow_text(settings | {'nodes': _n_publishers(names)})}   # nodes: the publishers"
    found = _roles(path, what, names)
    if found["topic"] is None and found.get("where") is None and what == "subscriptions":
        raise DataFileError(
            f"{path} has the columns {', '.join(_rows(path)[0])}; subscriptions need one with the topic "
            f"({', '.join(_TOPIC)}) or with a predicate (where); rename it"
        )
    settings |= {key: column for key, column in found.items() if column is not None}
    comment = ""
    if what == "publications" and not {"round", "at_ms"} & settings.keys():
        comment = f"    # No column has the time (round, at_ms): one publication a round from {_FIRST_ROUND} on.\n"
        settings["round"] = _FIRST_ROUND
    if not spread:
        return f"{comment}    file: {flow_text(settings)}"
    told = "the values of the node column are not nodes of the overlay, so each value is mapped to a node"
    return f"{comment}    # {told}\n    file: {flow_text(settings | {'nodes': 'all'})}"


def has_nodes(path: Path, what: str, names: Collection[str]) -> bool:
    """Returns whether at least one value in the node column of a workload file is a node; False for a PADRES file."""
    if _is_padres(path):
        return False
    header, *rows = _rows(path)
    node = _roles(path, what, names)["node"]
    return node is not None and _share(rows, header.index(node), names) > 0


def _roles(path: Path, what: str, names: Collection[str]) -> dict[str, str | None]:
    """Maps the keys of a workload file (``node``, ``topic``, ``round``, ...) to columns of table ``path``, or None."""
    header, *rows = _rows(path)
    share = {column: _share(rows, index, names) for index, column in enumerate(header)}
    kinds: dict[str, tuple[str, ...]] = {"topic": _TOPIC, "round": _ROUND, "at_ms": _TIME}
    if what == "subscriptions":
        kinds |= {"where": _WHERE, "until": ("until",), "until_ms": ("until_ms",)}
    titled = _first(header, _NODE)
    node = max(header, key=lambda column: (share[column], column == titled), default=None)
    if node is None or share[node] < _ENOUGH:
        node = titled or next(iter(header), None)
    others = [column for column in header if column != node]
    found = {key: _first(others, titles) for key, titles in kinds.items()}
    if found["round"] is not None:
        found["at_ms"] = None
    return {"node": node} | found


def _share(rows: Sequence[Sequence[str]], index: int, names: Collection[str]) -> float:
    values = [row[index].strip() for row in rows if index < len(row) and row[index].strip()]
    return sum(value in names for value in values) / len(values) if values else 0.0


def _rows(path: Path) -> list[list[str]]:
    table = load(path).table
    rows = table.slice(0, _SAMPLE).to_pylist()
    return [table.column_names, *(["" if value is None else str(value) for value in row.values()] for row in rows)]


def _edge_attributes(path: Path) -> list[str]:
    try:
        keys = [element for _, element in ET.iterparse(path) if element.tag.endswith("key")]  # noqa: S314 - the user's
    except (OSError, ET.ParseError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise DataFileError(f"{path} cannot be read: {reason}; check its name and format") from error
    return [key.get("attr.name", "") for key in keys if key.get("for") in ("edge", "all")]


def _first(columns: Sequence[str], names: Sequence[str]) -> str | None:
    lower = {column.lower(): column for column in columns}
    return next((lower[name.lower()] for name in names if name.lower() in lower), None)


def write_scenario(file: Path, overlay: Path | None, subscriptions: Path | None, publications: Path | None) -> None:
    """Writes a new scenario file that uses the input files, and prints the next commands for the user."""
    if file.exists():
        raise DataFileError(f"{str(file)!r} already exists; name another file, or remove it")
    beside = file.absolute().parent
    if not beside.is_dir():
        raise DataFileError(f"folder {str(file.parent)!r} does not exist; create it, or name a file in another folder")
    tables = {"subscriptions": subscriptions, "publications": publications}
    names = _names(file, template(file, overlay, dict.fromkeys(tables), (), spread=False))
    texts = [template(file, overlay, tables, names, spread=spread) for spread in (False, True)]
    problems = [_problems(file, text) for text in texts]
    is_spread = bool(problems[0]) and not problems[1]
    chosen = int(is_spread and not any(path and has_nodes(path, what, names) for what, path in tables.items()))
    with writing(file):
        write_whole(file, texts[chosen])
    commands = "; ".join(unbroken(f"roundtable {command} {shlex.quote(str(file))}") for command in ("plan", "run"))
    print_lines(f"{file}: written; next: {commands}")
    if problems[chosen]:
        complain("edit it before running:", *problems[chosen])
    else:
        for part, note in notes(expand_runs(read_scenario(file, texts[chosen]))):
            print_lines(f"{part}: {note}")


def _names(file: Path, text: str) -> frozenset[str]:
    try:
        _, of_run = next(built(expand_runs(read_scenario(file, text, ["workload={}", "faults=[]"]))))
    except ScenarioError:
        return frozenset()
    return frozenset(of_run.overlay.names)


def _problems(file: Path, text: str) -> tuple[str, ...]:
    try:
        check(expand_runs(read_scenario(file, text)))
    except ScenarioError as error:
        return error.problems
    return ()
