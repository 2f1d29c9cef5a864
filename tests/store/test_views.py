"""Every view against values worked out by hand, on the tree of Figure 5, and matching against a plain program.

The first run is of protocol delta with δ = 0 and ends at its horizon, round 40: S1 and S4 subscribe in round 5, S4
takes it back in round 32; P1 publishes in rounds 30 and 39. The second run is of protocol forwarding, which confirms
nothing.
"""

from __future__ import annotations

import json
import operator
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pipelines.contract.predicate import OPERATORS, Predicate, canonical, predicate_rows
from pipelines.engines.session import Session
from pipelines.errors import QueryError
from pipelines.inputs.workload.calls import to_json
from pipelines.sql.query import StoreReader
from pipelines.sql.views import relations_read, view_head, view_sources
from pipelines.store.store import Store
from pipelines.tables import HISTORY, PREDICATE, PUBLICATION, ROUND_COMMIT

P1, N1, N2, N3, S1, S2, S3, S4 = range(8)
DELTA = {
    "protocol": {"name": "delta", "delta": 0},
    "time": {"rounds": 40},
    "workload": {
        "subscriptions": [
            {"at": "S1", "round": 5, "topic": "a"},
            {"at": "S4", "round": 5, "topic": "a", "where": "x > 1", "until": 32},
        ],
        "publications": [
            {"at": "P1", "round": 30, "topic": "a", "content": {"x": 5}},
            {"at": "P1", "round": 39, "topic": "a", "content": {"x": 1}},
        ],
    },
}
FORWARDING = {
    "protocol": {"name": "forwarding"},
    "workload": {
        "subscriptions": [{"at": "S1", "round": 5, "topic": "a", "until": 50}],
        "publications": [{"at": "S2", "round": 7, "topic": "a"}]
        + [{"at": "P1", "round": round_, "topic": "a"} for round_ in (6, 7, 20, 46, 47)],
    },
}
Rows = set[tuple[Any, ...]]


@pytest.fixture(scope="module")
def delta_store(sail: Session, run_scenario: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run_scenario(DELTA, sail, tmp_path_factory.mktemp("delta"))


@pytest.fixture(scope="module")
def forwarding_store(
    sail: Session, run_scenario: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    return run_scenario(FORWARDING, sail, tmp_path_factory.mktemp("forwarding"))


@pytest.fixture(scope="module")
def delta(sail: Session, delta_store: Path) -> StoreReader:
    return StoreReader(sail, delta_store)


@pytest.fixture(scope="module")
def forwarding(sail: Session, forwarding_store: Path) -> StoreReader:
    return StoreReader(sail, forwarding_store)


def rows(reader: StoreReader, text: str) -> Rows:
    found = [tuple(tuple(one) if isinstance(one, list) else one for one in row) for row in reader.sql(text).collect()]
    assert len(found) == len(set(found))
    return set(found)


def test_every_view_says_which_question_it_answers() -> None:
    for name, text in view_sources().items():
        assert view_head(name).question.endswith("?")
        assert text.startswith("-- ")


def test_a_view_comes_after_those_that_it_reads() -> None:
    names = [*view_sources()]
    assert names.index("matching") < names.index("expected_delivery")
    read = relations_read("select * from missing_delivery")
    assert read[-3:] == ["receiver", "expected_delivery", "missing_delivery"]
    assert {*read[-6:-3]} == {"first_delivery", "matching", "node_recovery"}


def test_an_unknown_view_is_refused_with_the_nearest(delta: StoreReader) -> None:
    with pytest.raises(QueryError, match=r"table 'mathcing' does not exist; did you mean 'matching'\? SHOW TABLES"):
        delta.table("mathcing")


def test_delivery_detail(delta: StoreReader) -> None:
    text = """select subscriber_name, source_name, source_seq, topic, content, publication_round, delivery_round,
        latency_rounds, hops from delivery_detail"""
    assert rows(delta, text) == {
        ("S1", "P1", 1, "a", '{"x":5}', 30, 33, 3, 3),
        ("S4", "P1", 1, "a", '{"x":5}', 30, 33, 3, 3),
    }


def test_message_detail(delta: StoreReader) -> None:
    """The publication of round 30 goes over N1 and N2 to S1: who has it from whom; the calls of messages are named."""
    text = """select src, src_name, dst, dst_name, sent_round, due_round, fate, source, source_name, source_seq
        from message_detail where kind = 'PUB' and source_seq = 1 and dst_name in ('N1', 'N2', 'S1')"""
    assert rows(delta, text) == {
        (P1, "P1", N1, "N1", 30, 31, "delivered", P1, "P1", 1),
        (N1, "N1", N2, "N2", 31, 32, "delivered", P1, "P1", 1),
        (N2, "N2", S1, "S1", 32, 33, "delivered", P1, "P1", 1),
    }
    assert rows(delta, "select count(1) from message_detail") == rows(delta, "select count(1) from message")


def test_a_message_that_serves_no_call_has_details_too(sail: Session, delta_store: Path, tmp_path: Path) -> None:
    root = tmp_path / "planted"
    shutil.copytree(delta_store, root)
    reader = StoreReader(sail, root)
    columns = """run_id, message_id + 1000000 as message_id, kind, src, dst, sent_round, due_round, fate,
        cast(null as bigint) as source, cast(null as bigint) as source_seq, body"""
    Store(root, sail).load(
        "message", reader.sql(f"select {columns} from message where kind = 'PUB' and dst = {N3}").toArrow()
    )
    text = "select distinct src_name, dst_name, source_name from message_detail where source is null"
    assert rows(reader, text) == {("N1", "N3", None)}


def test_matching(delta: StoreReader) -> None:
    assert rows(delta, "select * from matching") == {(0, 0, P1, 1), (0, 0, P1, 2), (0, 1, P1, 1)}


def test_expected_are_subscribers_from_confirmation_to_unsubscription(delta: StoreReader) -> None:
    """S4 unsubscribes in round 32, before the publication of round 30 is confirmed in round 36."""
    assert rows(delta, "select * from expected_delivery") == {
        (0, S1, "S1", P1, "P1", 1, 30, 0), (0, S1, "S1", P1, "P1", 2, 39, 0),
    }  # fmt: skip


def test_a_node_unsubscribes_before_it_publishes_in_a_round(
    sail: Session, run_scenario: Callable[..., Path], tmp_path: Path
) -> None:
    """Both publications are confirmed in their round; the subscription ends in round 20."""
    calls = {
        "subscriptions": [{"at": "A1", "round": 5, "topic": "a", "until": 20}],
        "publications": [{"at": "A1", "round": round_, "topic": "a"} for round_ in (19, 20)],
    }
    overlay = {"generate": {"kind": "line", "nodes": 1, "prefix": "A"}}
    alone = {"protocol": {"name": "delta"}, "overlay": overlay, "workload": calls}
    reader = StoreReader(sail, run_scenario(alone, sail, tmp_path))
    assert rows(reader, "select publication_round, due_round from receiver") == {(19, 19)}
    assert rows(reader, "select round from delivery") == {(19,)}


def test_a_held_publication_precedes_the_subscription_of_its_round(
    sail: Session, run_scenario: Callable[..., Path], tmp_path: Path
) -> None:
    """A pauses in round 1, so it publishes call 1 in round 2, before it subscribes and publishes again."""
    calls = {
        "subscriptions": [{"at": "A", "round": 2, "topic": "a"}],
        "publications": [{"at": "A", "round": round_, "topic": "a"} for round_ in (1, 2)],
    }
    paused = {
        "protocol": {"name": "flooding"}, "overlay": {"links": [["A", "B"]]}, "workload": calls,
        "faults": [{"kind": "pause", "node": "A", "round": 1, "until": 2}],
    }  # fmt: skip
    reader = StoreReader(sail, run_scenario(paused, sail, tmp_path))
    assert rows(reader, "select source_seq, publication_round from receiver") == {(3, 2)}
    assert rows(reader, "select source_seq, round from delivery") == {(3, 2)}


def test_without_confirmations_service_starts_with_the_first_delivery(forwarding: StoreReader) -> None:
    """S2's publication of round 7 is delivered. P1's of that round is not: the subscription is still on its way to P1.

    The largest latency is 3 rounds, so of the last ones that of round 46 is expected by the end of round 49 and that of
    round 47 is not, with the unsubscription in round 50.
    """
    text = "select subscriber, source, source_seq, publication_round from expected_delivery"
    assert rows(forwarding, text) == {(S1, S2, 1, 7), (S1, P1, 3, 20), (S1, P1, 4, 46)}


def test_missing_delivery(delta: StoreReader, forwarding: StoreReader) -> None:
    text = "select subscriber_name, source_name, source_seq, publication_round, subscription_id from missing_delivery"
    assert rows(delta, text) == {("S1", "P1", 2, 39, 0)}
    assert rows(forwarding, text) == set()


def test_duplicates_are_found_where_they_are_planted(sail: Session, delta_store: Path, tmp_path: Path) -> None:
    root = tmp_path / "planted"
    shutil.copytree(delta_store, root)
    reader, store = StoreReader(sail, root), Store(root, sail)
    for name in ("duplicate_message", "duplicate_delivery"):
        assert rows(reader, f"select * from {name}") == set()
    late = "select run_id, subscriber, source, source_seq, 35L as round, 5L as latency_rounds, hops from delivery"
    store.load("delivery", reader.sql(f"{late} where subscriber = {S4}").toArrow())
    late = """select run_id, message_id + 1000000 as message_id, kind, src, dst, 32L as sent_round, 34L as due_round,
        'duplicate' as fate, source, source_seq, body from message"""
    store.load("message", reader.sql(f"{late} where kind = 'PUB' and dst = {N3}").toArrow())
    text = (
        "select subscriber_name, source_name, source_seq, n_deliveries, first_round, last_round from duplicate_delivery"
    )
    assert rows(reader, text) == {("S4", "P1", 1, 2, 33, 35)}
    text = """select kind, src_name, dst_name, source, source_seq, sent_round, due_round, first_round
        from duplicate_message"""
    assert rows(reader, text) == {("PUB", "N1", "N3", P1, 1, 32, 34, 32)}


def test_link_load(delta: StoreReader) -> None:
    text = """select src_name, dst_name, kind, n_messages from link_load
        where src_name in ('P1', 'N1') and dst_name in ('P1', 'N1', 'N2')"""
    assert rows(delta, text) == {
        ("P1", "N1", "PUB", 2), ("P1", "N1", "CONF", 3),
        ("N1", "P1", "SUB", 2), ("N1", "P1", "UNSUB", 1), ("N1", "P1", "CONF", 1),
        ("N1", "N2", "SUB", 1), ("N1", "N2", "UNSUB", 1), ("N1", "N2", "PUB", 2), ("N1", "N2", "CONF", 1),
    }  # fmt: skip


def test_node_load(delta: StoreReader) -> None:
    """One message is in flight to N2 at the end, so 53 of 54 are received."""
    text = "select name, n_sent, n_received from node_load where name in ('P1', 'S3')"
    assert rows(delta, text) == {("P1", 5, 4), ("S3", 3, 3)}
    assert rows(delta, "select sum(n_sent), sum(n_received) from node_load") == {(54, 53)}


def test_detector_size(delta: StoreReader, forwarding: StoreReader) -> None:
    """Both subscribers reach every node, P1 all but S2 and S3; forwarding has no detectors."""
    assert rows(delta, "select node_id, detector, n_entries from detector_size") == {
        (node, "identifier", 2 if node in {S2, S3} else 3) for node in range(8)
    }
    assert "detector_size" not in forwarding.tables()


def test_confirmation_time(delta: StoreReader, forwarding: StoreReader) -> None:
    assert rows(delta, "select * from confirmation_time") == {
        (0, "publication", P1, "P1", 1, None, 30, 36, 6, 60.0),
        (0, "subscription", S1, "S1", None, 0, 5, 13, 8, 80.0),
        (0, "subscription", S4, "S4", None, 1, 5, 13, 8, 80.0),
    }
    assert rows(forwarding, "select * from confirmation_time") == set()


def test_in_flight_round(delta: StoreReader) -> None:
    text = "select round, n_in_flight from in_flight_round where round < 8 or round between 30 and 32 or round > 38"
    assert rows(delta, text) == {(5, 2), (6, 4), (7, 6), (30, 1), (31, 2), (32, 3), (39, 2), (40, 1)}


def test_round_summary(delta: StoreReader) -> None:
    assert rows(delta, "select * from round_summary where round in (5, 33, 40)") == {
        (0, 5, 2, 0, 0, 0, "SUB 2", "", 0, 0, 0, 0),
        (0, 33, 4, 3, 0, 2, "CONF 2, UNSUB 2", "PUB 2, UNSUB 1", 0, 0, 0, 0),
        (0, 40, 1, 2, 0, 0, "PUB 1", "CONF 1, PUB 1", 0, 0, 0, 0),
    }


def test_unconfirmed_publication(delta: StoreReader, forwarding: StoreReader) -> None:
    assert rows(delta, "select * from unconfirmed_publication") == {(0, P1, "P1", 2, 39, "a", 1, 1, None)}
    assert rows(forwarding, "select * from unconfirmed_publication") == set()


def test_run_summary(delta: StoreReader, forwarding: StoreReader) -> None:
    text = """select protocol, get_json_object(parameters, "$['protocol.delta']"), n_publications, n_expected,
        n_deliveries, n_missing, delivery_ratio,
        n_excused, n_crashes, n_messages, messages_per_delivery, latency_rounds_median, latency_rounds_p95,
        latency_rounds_max,
        confirmation_rounds_median, confirmation_rounds_max from run_summary"""
    assert rows(delta, text) == {("delta", "0", 2, 2, 2, 1, 0.5, 0, 0, 54, 27.0, 3, 3, 3, 6, 6)}
    found = rows(forwarding, "select n_publications, n_expected, n_deliveries, n_missing from run_summary")
    assert found == {(6, 3, 4, 0)}


DEEP = {"comparison", "result", "result_summary", "unconfirmed_publication"}
"""Views that classic Spark plans for 3 to 8 CPU seconds, with the SQL of all views that they read."""


def test_all_views_give_the_same_on_classic_spark(
    sail: Session, spark: Session, delta_store: Path, forwarding_store: Path
) -> None:
    """In one store a view reads other views by their SQL, in the other by their rows."""
    names = {*view_sources(), "protocol", "sent_message"}
    planned_with_others = {name for text in view_sources().values() for name in relations_read(text)} | DEEP
    answers = []
    for session in (sail, spark):
        session.activate()
        plain = StoreReader(session, delta_store, is_small=False)
        small = StoreReader(session, forwarding_store, is_small=True)
        asked = [(plain, name) for name in plain.tables() if name in names - planned_with_others]
        asked += [(small, name) for name in small.tables() if name in names]
        with session.suited(is_small=True, is_in_one=True):
            answers.append([rows(reader, f"select * from {name}") for reader, name in asked])
    assert answers[0] == answers[1]
    assert len(answers[0]) > 40


ATTRIBUTES = ("price", "symbol", 'a "quoted" \\ name', "größe", "a,b")
NUMBERS = (
    0.0, -0.0, 1, 5, 5.5, -3, 1e-7, 1e300, 2**53, 2**53 + 1, 2.0**53 + 2, 1e18, 10**18 + 1, 2**63 - 1, 2**63 - 2,
    2.0**63, 2.0**62, -(2**63), -(2.0**63), -(2**63) + 1, -(2.0**64),
)  # fmt: skip
TEXTS = ("5", "A", "AB", "BA", "", "true", "false", 'x","price":"A', "back\\slash", "it's", "é", "5.0")


def draw_value(draw: random.Random) -> float | str:
    return draw.choice((*NUMBERS, *TEXTS))


def draw_predicate(draw: random.Random) -> Predicate:
    attribute, op = draw.choice(("topic", *ATTRIBUTES)), draw.choice(OPERATORS)
    if op == "filter":
        return Predicate("topic", op, draw.choice(FILTERS))
    text_only = attribute == "topic" or op in ("prefix", "suffix", "contains")
    value = draw.choice(TEXTS) if text_only else draw_value(draw)
    return Predicate(attribute, op, value)


def draw_content(draw: random.Random) -> dict[str, float | str | bool]:
    names = draw.sample(ATTRIBUTES, draw.randint(0, len(ATTRIBUTES)))
    return {name: draw.choice((draw_value(draw), draw_value(draw), True, False)) for name in names}


def holds(predicate: Predicate, attributes: dict[str, float | str | bool]) -> bool:
    """The plain form of a comparison; Python compares numbers exactly."""
    if predicate.attribute not in attributes:
        return False
    given, wanted, op = attributes[predicate.attribute], predicate.value, predicate.op
    if isinstance(given, bool):
        given = str(given).lower()
    if isinstance(given, str) != isinstance(wanted, str):
        return op == "!="
    if isinstance(given, str) and isinstance(wanted, str):
        tests = {
            "filter": lambda text: filtered(text, given),
            "prefix": given.startswith,
            "suffix": given.endswith,
            "contains": given.__contains__,
        }
        if op in tests:
            return tests[op](wanted)
    compare = {"=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt}
    return bool(compare.get(op, operator.ge)(given, wanted))


FILTERS = ("#", "A/#", "+/#", "+", "A/+", "A", "$SYS/#", "+/monitor", "/+", "+/+/B")
TOPICS = ("A", "A/", "A/B", "A/x/B", "/B", "$SYS", "$SYS/monitor", "A/monitor", "x.y", "x/y/B", "A\nB/x")


def filtered(text: str, topic: str) -> bool:
    """Whether a filter matches a topic, by a shell pattern and the number of levels."""
    if text[0] in "+#" and topic[0] == "$":
        return False
    levels, given = text.split("/"), topic.split("/")
    if levels[-1] == "#":
        levels, given = levels[:-1], given[: len(levels) - 1]
    pairs = list(zip(levels, given, strict=False))
    return len(levels) == len(given) and all(wanted in ("+", one) for wanted, one in pairs)


def drawn_parts() -> tuple[list[tuple[Predicate, ...]], list[dict[str, Any]]]:
    """Random conjunctions, and the attributes of random publications, the topic among them."""
    draw = random.Random(7)
    wanted = [tuple(draw_predicate(draw) for _ in range(draw.choice((1, 1, 2, 3)))) for _ in range(400)]
    contents = [draw_content(draw) for _ in range(150)]
    topics = [draw.choice((None, *filter(None, TEXTS), *TOPICS)) for _ in contents]
    return wanted, [
        content | ({} if topic is None else {"topic": topic}) for content, topic in zip(contents, topics, strict=True)
    ]


@pytest.fixture(scope="module")
def drawn(sail: Session, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Rows]:
    """A store of random publications and subscriptions without a run, and what must match in it."""
    wanted, given = drawn_parts()
    topics = [attributes.get("topic") for attributes in given]
    contents = [{name: value for name, value in each.items() if name != "topic"} for each in given]
    root = tmp_path_factory.mktemp("drawn")
    store = Store(root, sail)
    store.create(HISTORY)
    number = len(contents)
    published = pa.table({
        "run_id": [3] * number, "source": [1] * number, "source_seq": range(number), "issued_round": [0] * number,
        "topic": pa.array(topics, pa.string()), "content": [to_json(content) for content in contents],
        "guarantee": pa.nulls(number, pa.string()), "keys": pa.nulls(number, pa.list_(pa.string())),
        "confirmed_round": pa.nulls(number, pa.int64()),
    })  # fmt: skip
    store.load("publication", sail.spark.createDataFrame(published, PUBLICATION.schema).toArrow())
    compared = predicate_rows(pa.table({"predicate": pa.array([canonical(parts) for parts in wanted])}))
    compared = compared.rename_columns({"subscription": "subscription_id"})
    compared = compared.add_column(0, "run_id", pa.array([3] * len(compared), pa.int64()))
    store.load("predicate", sail.spark.createDataFrame(compared, PREDICATE.schema).toArrow())
    ledger = [(3, 3, 0, 0, 0, True, json.dumps({}))]
    store.load("round_commit", sail.spark.createDataFrame(ledger, ROUND_COMMIT.schema).toArrow())
    return root, {
        (3, subscription, 1, publication)
        for subscription, parts in enumerate(wanted)
        for publication, attributes in enumerate(given)
        if all(holds(part, attributes) for part in parts)
    }


def test_matching_agrees_with_a_plain_program(sail: Session, drawn: tuple[Path, Rows]) -> None:
    root, expected = drawn
    assert len(expected) > 1000
    assert rows(StoreReader(sail, root), "select * from matching") == expected


def test_matching_agrees_with_a_plain_program_on_classic_spark(spark: Session, drawn: tuple[Path, Rows]) -> None:
    root, expected = drawn
    spark.activate()
    assert rows(StoreReader(spark, root), "select * from matching") == expected


@pytest.mark.parametrize("protocol", ["forwarding", "epidemic"])
def test_a_subscription_is_not_active_before_it_can_reach_the_publisher(
    sail: Session, run_scenario: Callable[..., Path], tmp_path: Path, protocol: str
) -> None:
    """The subscription of round 40 takes 4 rounds to B and 9 to A. B's publication of round 47 is delivered.

    A's next two publications are also delivered; in the second run they are lost, and no publication of A is delivered.
    """
    links = [["A", "B", 5], ["B", "S", 4]]
    publications = [{"at": at, "round": round_, "topic": "a"} for at, round_ in
                    (("A", 47), ("B", 47), ("A", 50), ("A", 55))]  # fmt: skip
    parts = {
        "protocol": {"name": protocol},
        "overlay": {"links": links},
        "workload": {"subscriptions": [{"at": "S", "round": 40, "topic": "a"}], "publications": publications},
        "faults": [],
        "time": {"rounds": 100},
    }
    lost = {"kind": "loss", "rate": 1.0, "round": 50, "until": 56, "links": [["A", "B"]]}
    query = "select source_name, publication_round from receiver order by source_name, publication_round"
    for faults, delivered in (([], 3), ([lost], 1)):
        store = run_scenario({**parts, "faults": faults}, sail, tmp_path)
        reader = StoreReader(sail, store)
        assert [*map(tuple, reader.sql(query).collect())] == [("A", 50), ("A", 55), ("B", 47)]
        assert reader.sql("select 1 from delivery").count() == delivered
        assert reader.sql("select 1 from missing_delivery").count() == 3 - delivered


@pytest.mark.parametrize(
    ("links", "subscriptions", "published", "faults", "wanted"),
    [
        # The publication of round 25 arrives in round 35, but it belongs to the first subscription.
        ([["P", "S", 10]], [{"round": 0, "until": 30}, {"round": 32}], [("P", 41), ("P", 60), ("P", 90)], [], [60, 90]),
        # B pauses, so the subscription leaves B in round 80 and reaches A in round 85.
        (
            [["P", "B", 5], ["B", "S", 4], ["S", "T", 1]], [{"round": 40}], [("T", 50), ("P", 60), ("P", 120)],
            [{"kind": "pause", "node": "B", "round": 44, "until": 80}], [50, 120],
        ),
    ],
    ids=["again", "pause"],
)  # fmt: skip
def test_a_subscription_begins_with_its_own_deliveries(
    sail: Session, run_scenario: Callable[..., Path], tmp_path: Path, links: list[list[Any]],
    subscriptions: list[dict[str, Any]], published: list[tuple[str, int]], faults: list[dict[str, Any]],
    wanted: list[int],
) -> None:  # fmt: skip
    parts = {
        "protocol": {"name": "forwarding"},
        "overlay": {"links": links},
        "workload": {
            "subscriptions": [{"at": "S", "topic": "a", **one} for one in subscriptions],
            "publications": [{"at": at, "round": round_, "topic": "a"} for at, round_ in [("P", 25), *published]],
        },
        "faults": faults,
    }
    reader = StoreReader(sail, run_scenario(parts, sail, tmp_path))
    query = "select publication_round from receiver where publication_round > 25 order by 1"
    assert [row[0] for row in reader.sql(query).collect()] == wanted
    assert rows(reader, "select 1 from missing_delivery") == set()
