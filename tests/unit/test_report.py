"""The parts of a report that need no store: layouts, escaping, choice of runs, diagrams, the page's own programs."""

from __future__ import annotations

import json
import math
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, cast
from xml.etree import ElementTree

import networkx as nx
import pytest
from pyspark.sql import types as T

from pipelines.contract.round import stored_tables
from pipelines.errors import QueryError
from pipelines.protocols import PROTOCOLS, protocol_form
from pipelines.report import page as pages, replay as replays
from pipelines.report.layout import MAP, RING, SPRINGS, TREE, layout
from pipelines.report.measures import histogram
from pipelines.report.page import MESSAGE_FIELDS, NODE_FIELDS, PROGRAMS, embedded, page, write_report
from pipelines.report.pictures import asset
from pipelines.report.replay import WHOLE, Span
from pipelines.report.space_time import Arrow, Diagram, angle
from pipelines.report.summary import _sentence, chosen_runs
from pipelines.sql.query import StoreReader

NUMBERS = frozenset((
    "age", "applied", "arrival", "bits", "confirmed", "degree", "designation", "distance", "dropped", "fanout_end",
    "frontier", "hops", "incarnation", "join_seq", "key", "last", "last_seq", "matches", "msg_id", "n", "next",
    "next_number", "number", "numerator", "offered", "pattern_id", "position", "prefix", "prev", "run_id", "seen",
    "seq", "silent", "skipped", "source_seq", "subscription_id", "subscription_ids", "sync", "told", "tries",
    "unacknowledged", "value", "vote",
))  # fmt: skip
"""The integer fields of state tables without node ids, besides rounds and counts; `next` is a node id in one table."""
HOSTILE = "</script><script>alert('\"🐇')</script><!-- \u2028"


def points(kind: str, graph: nx.Graph[int], places: dict[int, tuple[float, float]] | None = None) -> list[Any]:
    """Returns the points of a layout that has to be of a kind."""
    found, at = layout(len(graph), list(graph.edges), places or {})
    assert found == kind
    assert all(0 <= x <= 1 and 0 <= y <= 1 for x, y in at)
    assert layout(len(graph), list(graph.edges), places or {}) == (found, at)
    return at


def test_a_tree_is_drawn_as_a_tree_without_crossing_links() -> None:
    tree = nx.balanced_tree(2, 3)
    at = points(TREE, tree)
    assert len(set(at)) == len(tree)
    levels = sorted({y for _, y in at})
    assert len(levels) == 4
    for a, b in tree.edges:
        assert abs(levels.index(at[a][1]) - levels.index(at[b][1])) == 1
    by_level = [sorted((at[a], at[b]) for a, b in tree.edges if max(at[a][1], at[b][1]) == level) for level in levels]
    ends = [[max(pair, key=lambda point: point[1])[0] for pair in level] for level in by_level]
    tops = [[min(pair, key=lambda point: point[1])[0] for pair in level] for level in by_level]
    for above, below in zip(tops, ends, strict=True):
        order = [x for _, x in sorted(zip(below, above, strict=True))]
        assert order == sorted(order)


def test_a_tree_with_many_leaves_is_drawn_around_its_middle() -> None:
    at = points(TREE, nx.star_graph(40))
    assert at[0] == (0.5, 0.5)


def test_a_cycle_is_drawn_as_a_ring_with_neighbours_side_by_side() -> None:
    at = points(RING, nx.cycle_graph(8))
    assert {round(math.dist(point, (0.5, 0.5)), 3) for point in at} == {0.5}
    assert len({round(math.dist(at[i], at[(i + 1) % 8]), 3) for i in range(8)}) == 1


def test_edges_that_nodes_hold_are_drawn_as_a_ring() -> None:
    order = [1, 3, 2, 5]
    ends = [(node, order[(place + 1) % 4]) for place, node in enumerate(order)]
    held = [(4, 2, False), *[(a, b, True) for a, b in ends], *[(b, a, True) for a, b in ends], (4, 1, True)]
    kind, at = layout(6, [], {}, held)
    assert kind == RING
    x, y = at[0]  # holds no edge: in the middle of the others
    assert x == 0.5
    assert 0.4 < y < 0.6
    turned = sorted(range(1, 6), key=lambda node: math.atan2(at[node][1] - y, at[node][0] - x))
    way = turned[turned.index(1) :] + turned[: turned.index(1)]
    assert [node for node in way if node != 4] in (order, [order[0], *order[:0:-1]])
    assert abs(way.index(4) - way.index(1)) in (1, 4)  # left the ring: beside the node that it held last


def test_nodes_of_a_map_do_not_cover_each_other() -> None:
    at = points(MAP, nx.path_graph(4), {0: (10.0, 50.0), 1: (10.0, 50.0), 2: (10.1, 50.0), 3: (40.0, 60.0)})
    assert min(math.dist(at[a], at[b]) for a in range(4) for b in range(a)) > 0.03


def test_far_latencies_are_counted_in_spans() -> None:
    assert histogram("hops", {2: 2, 4: 1}) == [{"hops": "2", "n": 2}, {"hops": "3", "n": 0}, {"hops": "4", "n": 1}]
    rows = histogram("latency", {1: 1, 2: 1, 60: 1})
    assert [rows[0], rows[-1]] == [{"latency": "1 to 2", "n": 2}, {"latency": "59 to 60", "n": 1}]
    assert sum(row["n"] for row in rows) == 3
    assert histogram("hops", {}) == []


def test_the_window_of_a_large_run_has_most_of_its_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replays, "MOST_MESSAGES", 10)
    counts = {"round": list(range(20)), "n_sent": [3] * 20, "n_ended": [3] * 20}
    traffic = replays.traffic_of(counts, 19)
    assert [traffic(0, 19), traffic(5, 5), traffic(0, 2)] == [60, 3, 9]
    assert replays.window(traffic, Span(0, 2), {12: 1}) == (0, 2)
    assert replays.window(traffic, Span(0, 19), {2: 1, 12: 1, 13: 1}) == (11, 13)
    assert replays.window(traffic, Span(0, 19), {19: 1}) == (17, 19)
    assert replays.window(traffic, Span(4, 19), {2: 1}) == (4, 6)
    crowded = replays.traffic_of({"round": [0, 1], "n_sent": [0, 50], "n_ended": [0, 50]}, 1)
    assert replays.window(crowded, Span(0, 1), {1: 2}) == (1, 1)


def test_other_overlays_are_drawn_by_springs_and_nodes_with_coordinates_on_the_map() -> None:
    grid = nx.convert_node_labels_to_integers(nx.grid_2d_graph(3, 3))
    points(SPRINGS, grid)
    north, south, east = points(MAP, nx.path_graph(4), {0: (10.0, 60.0), 1: (10.0, 40.0), 2: (20.0, 50.0)})[:3]
    assert north[1] < east[1] < south[1]
    assert north[0] < east[0]


def test_nothing_in_data_ends_the_script_that_holds_it() -> None:
    data = {HOSTILE: [HOSTILE, {"a": "&lt; \u2029"}]}
    text = embedded(data)
    assert not set(text) & {"<", ">", "&", "\u2028", "\u2029"}
    assert json.loads(text) == data


class Scripts(HTMLParser):
    """Collects the scripts of a page and the title."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.scripts: list[dict[str, str | None]] = []
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        if tag == "script":
            self.scripts.append(dict(attrs))
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href", "data", "action")]


def test_a_page_has_its_own_scripts_only_and_asks_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "_libraries", lambda: "")
    text = page({"scenario": HOSTILE}, HOSTILE)
    found = Scripts()
    found.feed(text)
    assert [script.get("type") for script in found.scripts] == ["application/json", *[None] * (1 + len(PROGRAMS))]
    assert found.addresses == []
    assert "default-src 'none'" in text
    assert "url(" not in asset("page.css")
    assert "@import" not in asset("page.css")


def test_own_programs_put_text_in_as_text_only() -> None:
    programs = "".join(asset(name) for name in PROGRAMS)
    for way in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "fetch(", "http:"):
        assert way not in programs.replace("http://www.w3.org/2000/svg", "")


def test_own_programs_are_linted(tmp_path: Any) -> None:
    for name in PROGRAMS:
        (tmp_path / name).write_text(asset(name), "utf-8")
    done = subprocess.run(["oxlint", "--deny-warnings", str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def run(run_id: int, **others: Any) -> dict[str, Any]:
    """Returns a row of view ``run_summary``, as far as runs are chosen by it."""
    kept = {"verdict": "valid", "n_violations": 0, "wanted_ratio": 1.0, "n_violations_excused": 0}
    return {"run_id": run_id, "latency_rounds_max": 5, **kept, **others}


def test_of_many_runs_the_worst_and_the_median_are_replayed() -> None:
    runs = [
        run(0),
        run(1, wanted_ratio=0.5),
        run(2, verdict="invalid", n_violations=1),
        run(3, latency_rounds_max=9),
        run(4),
    ]
    assert chosen_runs(runs, ()) == {2: "the worst run", 3: "the median run"}
    assert list(chosen_runs(runs[:2], ())) == [0, 1]
    assert list(chosen_runs(runs, (4,))) == [4]
    with pytest.raises(QueryError, match="run 9 does not exist; the store has runs 0 to 4"):
        chosen_runs(runs, (9,))


def test_a_space_time_diagram_has_a_line_a_node_and_an_arrow_a_message() -> None:
    names = ["A", HOSTILE]
    arrows = [Arrow("A", HOSTILE, 3, 5, "PUB", "delivered"), Arrow(HOSTILE, "A", 5, 6, "CONF", "lost_crash")]
    diagram = Diagram(names, arrows, [("A", 6, None)], [(HOSTILE, 5)])
    rows = diagram.datasets()
    assert [(one["row"], one["first"], one["last"]) for one in rows["nodes"]] == [(0, 3, 7), (1, 3, 7)]
    assert [(one["sent"], one["due"], one["from_row"], one["to_row"], one["is_lost"]) for one in rows["messages"]] == [
        (3, 5, 0, 1, False), (5, 6, 1, 0, True),
    ]  # fmt: skip
    assert [(one["from"], one["to"]) for one in rows["downs"]] == [(6, 7)]
    tree = ElementTree.fromstring(diagram.draw(HOSTILE).svg)  # noqa: S314 - made here
    texts = ["".join(one.itertext()) for one in tree.iter("{http://www.w3.org/2000/svg}text")]
    assert "A" in texts
    assert not [one for one in tree.iter() if one.tag.endswith("script")]


@pytest.mark.parametrize(("way", "turned"), [((1, 0), 90), ((0, 1), 180), ((1, -1), 45), ((1, 1), 135)])
def test_an_arrowhead_points_along_its_line(way: tuple[float, float], turned: float) -> None:
    assert angle(*way) == turned


@pytest.mark.parametrize(
    ("name", "reason"), [("none/r.html", "No such file or directory"), (".", "Is a directory"), ("x" * 300, "too long")]
)
def test_a_target_that_cannot_be_written_is_refused_before_the_store_is_read(
    tmp_path: Path, name: str, reason: str
) -> None:
    with pytest.raises(QueryError, match=f"cannot be written: .*{reason}; name another with --out"):
        write_report(cast("StoreReader", None), tmp_path, (), WHOLE, tmp_path / name)
    assert [*tmp_path.iterdir()] == []


def integer_fields(name: str, kind: T.DataType) -> set[str]:
    """Returns the names of the integer fields of a type, at any depth; ``name`` is the name of the field itself."""
    if isinstance(kind, T.StructType):
        return {found for one in kind.fields for found in integer_fields(one.name, one.dataType)}
    if isinstance(kind, T.ArrayType):
        return integer_fields(name, kind.elementType)
    return {name} if isinstance(kind, T.IntegralType) else set()


def test_every_integer_of_a_state_table_is_a_node_id_or_a_number() -> None:
    tables = [table for name in PROTOCOLS for table in stored_tables({name: protocol_form(name)})]
    found = {name for table in tables for name in integer_fields("", table.schema)}
    counts = {name for name in found if name.startswith("n_") or name.endswith(("round", "rounds"))}
    assert found - counts - NODE_FIELDS - MESSAGE_FIELDS == NUMBERS
    assert not NODE_FIELDS & (NUMBERS | counts | MESSAGE_FIELDS)


@pytest.mark.parametrize(("verdict", "told"), [("valid", "no run within the bound"), ("invalid", "1 of 1 run broke")])
def test_the_heading_names_a_guarantee_that_is_broken_beyond_the_bound(verdict: str, told: str) -> None:
    row = {"verdict": verdict, "within_bound": False, "n_wanted": 2, "n_wanted_delivered": 1}
    assert _sentence(verdict, [row]).startswith(told)
    assert _sentence(verdict, [row]).endswith(
        "1 run beyond the bound, 1 of 2 wanted deliveries lost, where nothing is promised"
    )
