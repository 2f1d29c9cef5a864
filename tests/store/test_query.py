"""SQL over a store: which statements are answered, what earlier rounds look like, and what errors say."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pipelines.engines.session import Session
from pipelines.errors import QueryError, StoreError
from pipelines.sql.differences import first_difference
from pipelines.sql.errors import readable_errors
from pipelines.sql.query import StoreReader
from pipelines.sql.views import view_sources
from pipelines.store import store

DELTA = {
    "protocol": {"name": "delta", "delta": 1},
    "workload": {
        "subscriptions": [
            {"at": "S1", "round": 5, "topic": "a"},
            {"at": "S4", "round": 6, "topic": "a", "until": 22},
        ],
        "publications": [{"at": "P1", "round": 20, "topic": "a", "content": {"x": 5}}],
    },
}
FORWARDING = {
    "protocol": {"name": "forwarding"},
    "workload": {
        "subscriptions": [{"at": "S1", "round": 5, "topic": "a"}],
        "publications": [{"at": "P1", "round": 20, "topic": "a"}],
    },
}
MOMENTS = (12, 23)
"""Both subscriptions are on their way; the publication is, and so is the unsubscription."""


@pytest.fixture(scope="module")
def stores(
    sail: Session, run_scenario: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("stores")
    found = {
        "often": run_scenario(DELTA, sail, folder, commit_every=1),
        "seldom": run_scenario(DELTA, sail, folder, commit_every=5),
        "forwarding": run_scenario(FORWARDING, sail, folder),
    }
    return found | {f"stopped{r}": run_scenario(DELTA, sail, folder, commit_every=1, stop_after=r) for r in MOMENTS}


@pytest.fixture(scope="module")
def readers(sail: Session, stores: dict[str, Path]) -> dict[str, StoreReader]:
    return {name: StoreReader(sail, root) for name, root in stores.items()}


@pytest.fixture(scope="module")
def reader(readers: dict[str, StoreReader]) -> StoreReader:
    return readers["seldom"]


def rows(reader: StoreReader, text: str, as_of_round: int | None = None) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in reader.sql(text, as_of_round).collect()), key=repr)


def history_queries() -> list[str]:
    """Reads everything but the ledger."""
    whole = [
        "message", "sent_message", "delivery", "node_status", "round_metric", "fault_event", "violation", "run",
        "node", "link", "predicate", "confirmation_time", "link_load", "node_load", "in_flight_round", "round_summary",
        "duplicate_message", "duplicate_delivery", "publication", "subscription",
    ]  # fmt: skip
    return [f"select * from {name}" for name in whole]


def state_queries(reader: StoreReader) -> list[str]:
    names = [name for name in reader.tables() if name.startswith("state_")]
    assert {"state_message", "state_call_log", "state_routing_entry"} <= set(names)
    return [f"select * from {name}" for name in names]


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_round_of_the_past_looks_as_it_did_when_it_was_the_last(readers: dict[str, StoreReader], moment: int) -> None:
    stopped, often, seldom = readers[f"stopped{moment}"], readers["often"], readers["seldom"]
    assert not stopped.is_finished()
    assert stopped.last_round() == moment
    for text in history_queries():
        answer = rows(stopped, text)
        assert rows(often, text, moment) == answer, text
        assert rows(seldom, text, moment) == answer, text
    for text in state_queries(often):
        assert rows(often, text, moment) == rows(stopped, text), text


def test_calls_that_are_open_at_a_round_are_there_with_what_is_known_by_then(reader: StoreReader) -> None:
    """S4 subscribed in round 6 and takes it back in round 22; P1 published in round 20."""
    text = "select subscriber, predicate, confirmed_round is null, unsubscribed_round, ended_round from subscription"
    a = "topic = 'a'"
    assert rows(reader, text, 5) == [(4, a, True, None, None)]
    assert rows(reader, text, 12) == [(4, a, True, None, None), (7, a, True, None, None)]
    assert rows(reader, text, 23) == [(4, a, False, None, None), (7, a, False, 22, None)]
    text = "select source, issued_round, content, confirmed_round from publication"
    assert rows(reader, text, 19) == []
    assert rows(reader, text, 20) == [(0, 20, '{"x":5}', None)]
    assert rows(reader, text)[0][3] > 23


def test_a_run_that_goes_on_has_no_verdict_yet(reader: StoreReader) -> None:
    assert rows(reader, "select verdict, rounds from run", 12) == [(None, None)]


def test_messages_in_flight_are_sent_messages(readers: dict[str, StoreReader]) -> None:
    text = "select message_id, kind, src, dst from sent_message where fate = 'in_flight'"
    in_flight = rows(readers["often"], text, 12)
    assert in_flight
    assert in_flight == rows(readers["often"], "select message_id, kind, src, dst from state_message", 12)
    assert rows(readers["often"], "select * from message where due_round > 12", 12) == []


def test_state_comes_from_the_last_commit_that_ended_by_the_round(readers: dict[str, StoreReader]) -> None:
    """Nothing happens before round 5, so the first block of five rounds ends with round 0; blocks follow each other."""
    seldom, often = readers["seldom"], readers["often"]
    versions = seldom.state_versions("state_routing_entry", [8, 9, 13, 14, seldom.last_round()])
    assert [versions[0] == one for one in versions] == [True, False, False, False, False]
    assert [versions[1] == one for one in versions] == [False, True, True, False, False]
    text = "select * from state_routing_entry"
    assert rows(seldom, text, 17) == rows(often, text, 14)
    assert rows(seldom, text) == rows(often, text)


def test_there_is_no_state_before_the_end_of_the_first_commit(readers: dict[str, StoreReader]) -> None:
    reader = readers["forwarding"]
    with pytest.raises(
        QueryError, match=r"no state tables were written by round 6; the first ones are those of round 9"
    ):
        reader.sql("select * from state_message", 6)
    assert len(rows(reader, "select * from sent_message", 5)) == 1


def test_rounds_after_the_end_are_as_the_end(reader: StoreReader) -> None:
    text = "select * from message"
    assert rows(reader, text, 9999) == rows(reader, text) == rows(reader, text, reader.last_round())


def test_rounds_that_are_not_there_are_refused(readers: dict[str, StoreReader]) -> None:
    with pytest.raises(QueryError, match=r"round -1 is before the first round; allowed: 0 to \d+"):
        readers["seldom"].sql("select 1 from run", -1)
    with pytest.raises(QueryError, match=r"round 13 is not in the store yet; allowed: 0 to 12, .*resume"):
        readers["stopped12"].table("message", 13)


def test_two_stores_and_two_rounds_do_not_mix_in_one_session(readers: dict[str, StoreReader]) -> None:
    text = "select count(1) from message"
    frames = [readers["forwarding"].sql(text), readers["seldom"].sql(text, 12), readers["seldom"].sql(text)]
    counts = [frame.collect()[0][0] for frame in frames]
    assert counts[0] == 7 + 3
    assert counts[0] < counts[1] < counts[2]
    assert [frame.collect()[0][0] for frame in reversed(frames)] == counts[::-1]


QUOTED = """select 'L''Aquila', '', '''', "a""b" -- it''s"""


def test_statements_that_read_are_answered(reader: StoreReader) -> None:
    assert rows(reader, "SELECT count(*) AS Node FROM Node WHERE NODE.name <> 'Node'; -- all of them") == [(8,)]
    assert reader.sql("select name from node order by name desc limit 2").collect() == [("S4",), ("S3",)]
    assert rows(reader, "with node as (select * from node where name like 'N%') select count(*) from node") == [(3,)]
    assert rows(reader, "(select 1) union all (select 2)") == [(1,), (2,)]
    assert rows(reader, "values ('a;b', ')')") == [("a;b", ")")]
    assert rows(reader, QUOTED) == [("L'Aquila", "", "'", 'a"b')]
    assert "plan" in reader.sql("explain select * from delivery").columns
    assert rows(reader, "select name, confirms from protocol where name = 'delta'") == [("delta", True)]


def test_show_and_describe_tell_what_there_is(reader: StoreReader) -> None:
    shown = {row.name: (row.kind, row.description) for row in reader.sql("show tables").collect()}
    assert list(shown) == reader.tables()
    assert shown["delivery"][0] == "history"
    assert shown["state_message"] == ("state", "a row is a message in flight; key run_id, message_id")
    assert shown["matching"] == ("view", "Which publication satisfies which subscription?")
    assert all(description for _, description in shown.values())
    described = [tuple(row) for row in reader.sql("describe delivery").collect()]
    assert described[1] == ("subscriber", "bigint", "node that delivered the publication to its application")
    assert rows(reader, "show columns in matching")[0][0] == "run_id"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the statement is empty; allowed: one SELECT"),
        ("drop table delivery", "a statement cannot start with 'drop'; allowed: one SELECT.*a store is only read"),
        ("selct 1", "cannot start with 'selct'; did you mean 'select'"),
        ("select 1; select 2", "line 1, column 9: a second statement begins after the semicolon"),
        ("select 'a", "line 1, column 8: the quote ' is never closed"),
        ("select (1", "line 1, column 8: this parenthesis is never closed"),
        ("select 1)\n) insert into t (select 1", "line 1, column 9: a parenthesis is closed that was never opened"),
        ("with a as (select 1) insert into delivery select * from a", "the statement cannot be answered: .*insert"),
        ("explain drop table delivery", "EXPLAIN takes a query, found 'drop'"),
        ("show databases", "SHOW databases is not answered; allowed: SHOW TABLES"),
        ("describe", "DESCRIBE takes the name of one table or view"),
        ("describe delivry", "table 'delivry' does not exist; did you mean 'delivery'"),
        ("select * from delivry", "table 'delivry' does not exist; did you mean 'delivery'. SHOW TABLES lists the "),
        (
            "select nmae from node",
            "column 'nmae' does not exist; did you mean 'name'. node has run_id, node_id, name, role",
        ),
        ("select d.hop from delivery d", "column 'd.hop' does not exist; did you mean 'hops'. delivery has run_id"),
        ("select kind, count(1) from message group by all", "engine local answers neither .*GROUP BY 1, 2, or choose"),
        ("select * from message order  by ALL", "engine local answers neither GROUP BY ALL nor ORDER BY ALL"),
        ("select 1\nfrom node wher x = 1", "the statement cannot be answered: .*line 2, column"),
        ("select * from", "^the statement cannot be answered: it ends too early$"),
        ("select * from node where\n", "^the statement cannot be answered: it ends too early; expected expression$"),
        ("select 1 2 3 from node", "^the statement cannot be answered: found 3 at line 1, column 12$"),
        ("select name, count(*) from node", "a column stands beside an aggregate.* but not in GROUP BY"),
        ("select nofunction(1)", "the statement cannot be answered: .*nofunction"),
    ],
)
def test_errors_say_what_is_wrong_in_one_line(reader: StoreReader, text: str, message: str) -> None:
    check_error(reader, text, message)


def check_error(reader: StoreReader, text: str, message: str) -> None:
    with pytest.raises(QueryError, match=message) as caught:
        reader.sql(text)
    assert len(str(caught.value)) < 2000
    assert "\n" not in str(caught.value)


def test_quotes_and_errors_of_classic_spark_read_the_same(spark: Session, stores: dict[str, Path]) -> None:
    spark.activate()
    reader = StoreReader(spark, stores["seldom"])
    assert rows(reader, QUOTED) == [("L'Aquila", "", "'", 'a"b')]
    check_error(reader, "select * from delivry", "table 'delivry' does not exist; did you mean 'delivery'")
    check_error(reader, "select nmae from node", "column 'nmae' does not exist; did you mean 'name'. node has run_id")
    check_error(
        reader, "select d.hop from delivery d", "column 'd.hop' does not exist; did you mean 'hops'. delivery has"
    )
    assert len(rows(reader, "select run_id, max(node_id) from node group by all order by all")) == 1
    check_error(reader, "select 1\nfrom node wher x = 1", "cannot be answered: .*at line 2, column")
    check_error(reader, "with a as (select 1) insert into delivery select * from a", "cannot be answered: .*insert")
    check_error(reader, "select nofunction(1)", "cannot be answered: .*nofunction")
    with (
        pytest.raises(QueryError, match=r"^the statement cannot be answered: .*cannot be cast") as caught,
        readable_errors(),
    ):
        reader.sql("select cast(name as int) from node").collect()
    assert "\n" not in str(caught.value)


def test_double_quotes_enclose_identifiers_if_the_session_says_so(spark: Session, stores: dict[str, Path]) -> None:
    spark.activate()
    reader = StoreReader(spark, stores["seldom"])
    spark.spark.conf.set("spark.sql.ansi.doubleQuotedIdentifiers", "true")
    try:
        assert rows(reader, 'select "name" from "node" where "node_id" = 0') == rows(
            reader, "select name from node where node_id = 0"
        )
    finally:
        spark.spark.conf.unset("spark.sql.ansi.doubleQuotedIdentifiers")


@pytest.mark.parametrize("is_small", [True, False])
@pytest.mark.parametrize("text", ["select * from node_load", "select n.node_id from node_load n", "node_load"])
def test_a_view_with_an_unknown_column_is_told(
    sail: Session, stores: dict[str, Path], monkeypatch: pytest.MonkeyPatch, is_small: bool, text: str
) -> None:
    """Packages of protocols bring views of their own."""
    changed = {**view_sources(), "node_load": "select run_id, mesage_id from message"}
    monkeypatch.setattr("pipelines.sql.query.view_sources", lambda: changed)
    broken = StoreReader(sail, stores["often"], is_small=is_small)
    with pytest.raises(QueryError, match="column 'mesage_id' does not exist"):
        broken.sql(text) if " " in text else broken.table(text)


def test_errors_while_rows_are_computed_are_one_line_too(reader: StoreReader) -> None:
    with pytest.raises(QueryError, match=r"^the statement cannot be answered: .*Cannot cast"), readable_errors():
        reader.sql("select cast(name as int) from node").collect()


def test_an_earlier_round_looks_the_same_on_classic_spark(
    spark: Session, sail: Session, stores: dict[str, Path]
) -> None:
    names = ("message", "subscription", "state_routing_entry", "sent_message")
    answers = []
    for session in (sail, spark):
        session.activate()
        for name in ("seldom", "stopped12"):
            reader = StoreReader(session, stores[name])
            answers.append([rows(reader, f"select * from {table}", 12) for table in names])
    assert answers[:2] == answers[2:]


@pytest.mark.parametrize("kind", ["nothing", "file", "other"])
def test_a_folder_that_is_no_store_is_refused(sail: Session, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "place"
    if kind == "file":
        path.write_text("x")
    if kind == "other":
        (path / "photos").mkdir(parents=True)
    said = {
        "nothing": "store .* does not exist",
        "file": "is a file, not a store",
        "other": "not a store: .*holds photos",
    }
    with pytest.raises(StoreError, match=f"{said[kind]}.*name the folder that `roundtable run` wrote"):
        StoreReader(sail, path)


def test_open_calls_of_an_unfinished_store_have_their_content(
    run_scenario: Callable[..., Path], sail: Session, tmp_path: Path
) -> None:
    parts = {
        "protocol": {"name": "ginger"},
        "overlay": {"links": [["A", "B", 5]], "clients": [{"name": "a", "at": "A"}, {"name": "b", "at": "B"}]},
        "workload": {
            "subscriptions": [{"at": name, "topic": "t"} for name in "ab"],
            "publications": [
                {"at": "a", "round": 14, "topic": "t", "content": {"x": 2}, "guarantee": "total", "keys": ["k"]}
            ],
        },
    }
    stores = [run_scenario(parts, sail, tmp_path, commit_every=4, stop_after=stop) for stop in (16, None)]
    opened, ended = (StoreReader(sail, store) for store in stores)
    assert not opened.is_finished()
    texts = {
        "publication": "select source, topic, content, guarantee, keys from publication where confirmed_round is null",
        "subscription": "select subscriber, predicate from subscription",
        "wanted_delivery": "select subscriber, source, source_seq from wanted_delivery",
    }
    for name, text in texts.items():
        assert rows(opened, text) == rows(ended, text, opened.last_round()) != [], name


def test_an_unfinished_store_differs_in_no_row_from_itself(
    sail: Session, stores: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sail reads the largest table, with comments; it fails to plan some unions with columns that have none."""
    sizes = [file.stat().st_size for file in (stores["stopped12"] / "message").glob("*.parquet")]
    monkeypatch.setattr(store, "_FEW_BYTES", sum(sizes) - 1)
    opened = StoreReader(sail, stores["stopped12"])
    assert not opened.is_finished()
    assert first_difference(opened, opened) is None


def test_versions_before_a_checkpoint_of_a_log_are_read(
    run_scenario: Callable[..., Path], readers: dict[str, StoreReader], sail: Session, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Tables of more than 1,000 commits have a checkpoint; here those of more than 5."""
    monkeypatch.setitem(store._PROPERTIES, "delta.checkpointInterval", "5")
    root = run_scenario(DELTA, sail, tmp_path, commit_every=1, stop_after=max(MOMENTS) + 1)
    assert list((root / "state_message" / "_delta_log").glob("*.checkpoint.parquet"))
    reader = StoreReader(sail, root)
    for text in state_queries(reader):
        for moment in (8, *MOMENTS):
            assert rows(reader, text, moment) == rows(readers["often"], text, moment), (text, moment)
