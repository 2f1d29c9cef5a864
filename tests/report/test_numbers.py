"""The numbers of large reports: each one on the pages Measures, Losses and Replay is what SQL says of the whole run."""

from __future__ import annotations

import heapq
import importlib.util
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.browser import Opened, browser, chromium, keep, opened

import pipelines as rt
from pipelines.engines.session import Session
from pipelines.errors import QueryError
from pipelines.report.replay import MOST_MESSAGES
from pipelines.report.space_time import of_run
from pipelines.result import Result

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(chromium() is None, reason="no Chromium: apt-get install chromium"),
    pytest.mark.skipif(importlib.util.find_spec("playwright") is None, reason="no Playwright: pip install playwright"),
]
SIZES = {("delta", 2000): (6, 0.06), ("forwarding", 200): (100, 0.1)}
"""Protocols and numbers of brokers, with the number of subscribers and the rate of publications."""
MARKS = "es => es.map(e => e.getAttribute('aria-label'))"
DATA = "JSON.parse(document.getElementById('data').textContent).replays[0]"
N_SENT = "select sent_round as round, kind, count(1) as n from sent_message where src <> dst group by sent_round, kind"
LOST = "select due_round as round, count(1) as n from sent_message where src <> dst and fate like 'lost%' group by 1"
LOAD = """
select n.name, count_if(m.src = n.node_id) as sent,
  count_if(m.dst = n.node_id and m.fate in ('delivered', 'duplicate')) as received
from node n join sent_message m on m.src <> m.dst and n.node_id in (m.src, m.dst) group by n.name
"""
LINKS = """
select concat(a.name, ' to ', b.name) as name, count(1) as n from sent_message m
join node a on a.node_id = m.src join node b on b.node_id = m.dst where m.src <> m.dst group by 1
"""
FLYING = "sent_round <= {0} and (due_round > {0} or fate = 'in_flight')"


def scenario(protocol: str, n_brokers: int) -> dict[str, Any]:
    subscribers, rate = SIZES[protocol, n_brokers]
    return {
        "name": f"{protocol}{n_brokers}",
        "protocol": {"name": protocol},
        "overlay": {"generate": {"kind": "random_tree", "nodes": n_brokers, "max_degree": 4, "prefix": "N"}},
        "workload": {
            "subscriptions": {"generate": {"kind": "topics", "topics": 3, "nodes": subscribers, "rounds": [0, 10]}},
            "publications": {
                "generate": {"kind": "topics", "topics": 3, "nodes": 40, "rounds": [60, 90], "rate": rate},
            },
        },
        "faults": [
            {"kind": "crash", "node": "N3", "round": 66, "until": 90},
            {"kind": "crash", "node": "N9", "round": 75},
        ],
        "time": {"rounds": 400},
    }


@pytest.fixture(scope="module")
def started() -> Iterator[Any]:
    with browser() as found:
        yield found


@pytest.fixture(scope="module", params=SIZES, ids=lambda given: f"{given[0]}-{given[1]}")
def large(
    request: pytest.FixtureRequest, sail: Session, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Result, Path]:
    folder = tmp_path_factory.mktemp("large")
    result = rt.run(scenario(*request.param), spark=sail.spark, store=folder / "store", commit_every=50)
    result.report(out=folder / "report.html")
    assert n_of(result, "sent_message where src <> dst") > MOST_MESSAGES
    return result, folder / "report.html"


def n_of(result: Result, rows: str) -> int:
    return int(result.sql(f"select count(1) as n from {rows}").collect()[0].n)


def marks(found: Opened, name: str) -> list[dict[str, str]]:
    """Returns what the marks of a picture say of themselves, by field; axes and legends are none."""
    picture = found.page.locator(f"#measure-{name} svg.marks")
    picture.wait_for()
    texts = found.page.eval_on_selector_all(
        f"#measure-{name} g.mark-rect path, #measure-{name} .mark-symbol path", MARKS
    )
    return [dict(part.split(": ", 1) for part in text.split("; ")) for text in texts if text and "; " in text]


def spans(rows: dict[str, int]) -> dict[int, int]:
    """Adds up what values have in spans, for each value of the span where the rows are single values."""
    return {int(re.findall(r"\d+", span)[0]): n for span, n in rows.items()}


def in_spans(expected: dict[int, int], starts: list[int]) -> dict[int, int]:
    found = dict.fromkeys(starts, 0)
    for value, n in expected.items():
        found[max(start for start in starts if start <= value)] += n
    return found


def distances(result: Result) -> dict[int, dict[int, int]]:
    """Returns the latency of the fastest way from each publisher to each node."""
    links: dict[int, list[tuple[int, int]]] = {}
    for row in result.sql("select src, dst, latency_rounds as latency from link").collect():
        links.setdefault(row.src, []).append((row.dst, row.latency))
    found: dict[int, dict[int, int]] = {}
    for source in [row.source for row in result.sql("select distinct source from publication").collect()]:
        known: dict[int, int] = {}
        heap = [(0, source)]
        while heap:
            far, node = heapq.heappop(heap)
            if node not in known:
                known[node] = far
                for peer, latency in links[node]:
                    heapq.heappush(heap, (far + latency, peer))
        found[source] = known
    return found


def n_late(result: Result) -> int:
    fastest = distances(result)
    first = "select source, subscriber, min(latency_rounds) as n from delivery group by source, subscriber, source_seq"
    return sum(row.n > fastest[row.source][row.subscriber] for row in result.sql(first).collect())


def test_measures_are_those_of_the_whole_run(large: tuple[Result, Path], started: Any) -> None:
    result, file = large
    with opened(started, file) as found:
        found.show("measures/run=0")
        keep(found, f"{file.parent.name}-measures")
        for name, column, title in (("latency", "latency_rounds", "latency"), ("hops", "hops", "links traversed")):
            rows = result.sql(f"select {column} as value, count(1) as n from delivery group by {column}").collect()
            drawn = marks(found, name)
            key = next(field for field in drawn[0] if field.startswith(title))
            shown = spans({one[key]: int(one["deliveries"]) for one in drawn})
            assert shown == in_spans({row.value: row.n for row in rows}, list(shown))
            assert sum(shown.values()) == n_of(result, "delivery")
        over_time = marks(found, "over_time")
        for what, text in (
            ("deliveries", "select round, count(1) as n from delivery group by round"),
            ("messages lost", LOST),
        ):
            shown = {int(one["round"]): int(one["number"]) for one in over_time if one["what"] == what}
            assert shown == in_spans({row.round: row.n for row in result.sql(text).collect()}, list(shown))
        sent = result.sql(N_SENT).collect()
        total: Counter[str] = Counter()
        for row in sent:
            total[row.kind] += row.n
        drawn_kinds: Counter[str] = Counter()
        by_bin: Counter[int] = Counter()
        for one in marks(found, "kinds"):
            drawn_kinds[one["kind"]] += int(one["messages"])
            by_bin[int(one["round"].split(" ")[0])] += int(one["messages"])
        others = drawn_kinds.pop("other kinds", 0)
        assert drawn_kinds == Counter({kind: total[kind] for kind in drawn_kinds})
        assert sum(drawn_kinds.values()) + others == sum(total.values())
        by_round: Counter[int] = Counter()
        for row in sent:
            by_round[row.round] += row.n
        assert dict(by_bin) == {at: n for at, n in in_spans(by_round, sorted(by_bin)).items() if n}


def test_loads_and_states_are_those_of_the_whole_run(large: tuple[Result, Path], started: Any) -> None:
    result, file = large
    with opened(started, file) as found:
        found.show("measures/run=0")
        load = {row.name: {"sent": row.sent, "received": row.received} for row in result.sql(LOAD).collect()}
        bars = marks(found, "nodes")
        shown = {(one["name"], one["what"]): int(one["messages"]) for one in bars}
        assert shown == {key: load[key[0]][key[1]] for key in shown}
        busiest = sorted((sum(of_node.values()) for of_node in load.values()), reverse=True)[:40]
        assert sorted(Counter({name: sum(load[name].values()) for name, _ in shown}).values(), reverse=True) == busiest
        links = {row.name: row.n for row in result.sql(LINKS).collect()}
        bars_of_links = {one["name"]: int(one["messages"]) for one in marks(found, "links")}
        assert bars_of_links == {name: links[name] for name in bars_of_links}
        assert sorted(bars_of_links.values()) == sorted(links.values())[-40:]
        states = marks(found, "states")
        assert {int(one["round"]) for one in states} == {
            row.last_round for row in result.sql("select distinct last_round from round_commit").collect()
        }
        for one in (one for one in states if one["table"] != "other tables"):
            n_rows = result.table(one["table"], int(one["round"])).count()
            assert (one["table"], one["round"], int(one["rows"])) == (one["table"], one["round"], n_rows)
    assert f"{bars[0]['name']}<" in result.plot("nodes").svg


def test_losses_and_late_deliveries_are_counted_in_full(large: tuple[Result, Path], started: Any) -> None:
    result, file = large
    with opened(started, file) as found:
        found.show("losses/run=0")
        keep(found, f"{file.parent.name}-losses")
        expected = {
            "Missing deliveries": n_of(result, "missing_delivery"),
            "Delivered twice": n_of(result, "duplicate_delivery"),
            "Late deliveries": n_late(result),
        }
        shown = dict.fromkeys(expected, 0)
        for title in found.page.locator("#losses h2").all_inner_texts():
            name, _, number = title.partition(": ")
            if name in shown:
                shown[name] = int(number.removesuffix(", by cause").replace(",", ""))
        assert shown == expected
        assert sum(expected.values()) > 0
        n_asked = found.page.evaluate(f"{DATA}.losses.n_asked")
        causes = [
            int(text.split(":")[0].replace(",", "")) for text in found.page.locator("#losses h3").all_inner_texts()
        ]
        assert sum(causes) == sum(n_asked.values())
        assert n_asked == {
            what: min(1_000, n) for what, n in zip(("missing", "twice", "late"), expected.values(), strict=True) if n
        }
        unwanted = n_of(result, "wanted_delivery where delivery_round is null") - expected["Missing deliveries"]
        assert (f"{unwanted:,} of them were not expected" in found.text("#losses")) == (unwanted > 0)
        n_violations = n_of(result, "violation")
        assert (f"Violations: {n_violations:,}" if n_violations else "Violations") in found.text("#losses")


def test_every_round_opens_with_what_sql_says_of_it(large: tuple[Result, Path], started: Any) -> None:
    result, file = large
    last = result.runs[0].rounds or 0
    with opened(started, file) as found:
        found.show("replay/run=0")
        first, until = (found.page.evaluate(f"{DATA}.{name}") for name in ("first", "last"))
        assert first <= 66 <= until
        assert first <= 75 <= until
        assert 0 < int(found.page.input_value("#round")) - first < 66 - first + 1
        for round_ in (0, 14, first, 66, 75, until, last):
            found.show(f"replay/run=0&round={round_}")
            assert found.page.input_value("#round") == str(round_)
            n_flying = n_of(result, f"sent_message where src <> dst and {FLYING.format(round_)}")
            assert int(found.text("#n-flying").replace(",", "")) == n_flying
            n_delivered = n_of(result, f"delivery where round <= {round_}")
            assert int(found.text("#n-delivered").replace(",", "")) == n_delivered
            n_drawn = found.page.locator("#overlay .message:not(.lost)").count()
            said = re.search(r"([\d,]+) of them not drawn", found.text("#counts"))
            assert n_drawn + (int(said[1].replace(",", "")) if said else 0) == n_flying
            n_lost = n_of(result, f"sent_message where src <> dst and fate like 'lost%' and due_round = {round_}")
            assert (f"Lost messages: {n_lost}" in found.text("#events")) == (n_lost > 0)
            assert found.page.locator("#outside").count() == (not first <= round_ <= until)
        keep(found, f"{file.parent.name}-replay")
        assert found.complaints == []


def test_rounds_that_are_asked_for_are_drawn(large: tuple[Result, Path], started: Any, tmp_path: Path) -> None:
    result, _ = large
    result.report(first_round=2, last_round=4, out=tmp_path / "asked.html")
    with opened(started, tmp_path / "asked.html") as found:
        found.show("replay/run=0")
        assert [found.page.evaluate(f"{DATA}.{name}") for name in ("first", "last")] == [2, 4]
        assert found.page.input_value("#round") == "2"
        n_messages = n_of(result, "sent_message where src <> dst and due_round >= 2 and sent_round <= 4")
        assert found.page.evaluate(f"{DATA}.message.message_id.length") == min(n_messages, MOST_MESSAGES)
        found.show("replay/run=0&round=75")
        assert "N9: crash" in found.text("#events")
        assert "--rounds 60:90" in found.text("#outside")
        found.show("measures/run=0")
        assert sum(int(one["deliveries"]) for one in marks(found, "latency")) == n_of(result, "delivery")
    with pytest.raises(QueryError, match=r"round 5000 does not exist in run 0; allowed: 0 to \d+"):
        result.report(first_round=5000, out=tmp_path / "none.html")


def test_a_diagram_is_drawn_from_the_whole_run(large: tuple[Result, Path]) -> None:
    result, _ = large
    newest = "select dst, due_round as at from sent_message where src <> dst order by message_id desc limit 1"
    [row] = result.sql(newest).collect()
    [name] = [one.name for one in result.sql(f"select name from node where node_id = {row.dst}").collect()]
    diagram = of_run(result.reader, 0, None, None, name, (row.at - 2, row.at))
    where = f"src <> dst and {row.dst} in (src, dst) and sent_round <= {row.at} and due_round >= {row.at - 2}"
    assert len(diagram.arrows) == n_of(result, f"sent_message where {where}") > 0


@pytest.mark.parametrize("named", [{"source": "A"}, {"call": 1}])
def test_a_diagram_of_a_publication_needs_publisher_and_call(large: tuple[Result, Path], named: dict[str, Any]) -> None:
    with pytest.raises(QueryError, match="source and call name a publication together"):
        large[0].space_time(**named)
