"""The audits of protocol skipring find what is planted, its views measure, and stories tell how publications came.

In the run that is healed six subscribers are the skip ring from the start, N7 joins, N2 leaves and N5 crashes.
"""

from __future__ import annotations

from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from support.copies import Plant, Planting

from pipelines.audits.run import AuditReport
from pipelines.cli.verdict import print_findings
from pipelines.engines.session import Session
from pipelines.result import Result
from pipelines.sql.query import StoreReader
from pipelines.store.store import Store
from pipelines.testing import (
    added,
    audited,
    copied,
    planted,
    removed,
    replaced,
    rows,
    run_all,
    run_configs,
    scenario,
)
from udfs.skipring.legitimate import max_degree, n_edges

NEWS = "news"
LATE = 580
HORIZON = 600
SETTINGS = {"timeout_interval": 4, "max_delay": 4, "min_delay": 1, "silence_intervals": 6, "detection_rounds": 3}


def ring(start: str, subscriptions: list[dict[str, Any]], **parts: Any) -> dict[str, Any]:
    return scenario(
        protocol={"name": "skipring", "start": start, **SETTINGS, **parts.pop("settings", {})},
        overlay={"nodes": {"count": 8, "supervisors": 1}},
        workload={"subscriptions": subscriptions, "publications": parts.pop("publications", [])},
        time={"rounds": parts.pop("rounds", HORIZON)},
        **parts,
    )


def subscribers(count: int) -> list[dict[str, Any]]:
    return [{"at": f"N{number}", "topic": NEWS} for number in range(1, count + 1)]


HEALED = ring(
    "legitimate",
    [*subscribers(6), {"at": "N7", "topic": NEWS, "round": 40}],
    settings={"start_until": 0, "start_publications": 1},
    publications=[{"at": "N1", "round": 5, "topic": NEWS}, {"at": "N4", "round": 150, "topic": NEWS}],
    faults=[{"kind": "crash", "node": "N5", "round": 100}],
)
HEALED["workload"]["subscriptions"][1]["until"] = 70
TOO_LATE = ring("legitimate", subscribers(6), publications=[{"at": "N1", "round": HORIZON - 1, "topic": NEWS}])
TOO_EARLY = ring("arbitrary", subscribers(6), rounds=6)
TRIES = ring("tries", subscribers(2), settings={"start_publications": 3})


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("audits_skipring")


@pytest.fixture(scope="module")
def clean(sail: Session, root: Path) -> Store:
    """The run that is healed, in which violations are planted."""
    return run_all(run_configs([HEALED]), sail, root)


@pytest.fixture(scope="module")
def ended(sail: Session, root: Path) -> Store:
    """A run with a publication right before its end, and one with tries that differ at the start."""
    return run_all(run_configs([TOO_LATE, TRIES]), sail, root)


@pytest.fixture(scope="module")
def early(sail: Session, root: Path) -> Store:
    return run_all(run_configs([TOO_EARLY]), sail, root)


@pytest.fixture(scope="module")
def ids(clean: Store) -> dict[str, int]:
    return {name: node for node, name in rows(clean, "node", "node_id", "name")}


def answer(store: Store, text: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in StoreReader(store.session, store.root).sql(text).collect()]


def last_change(store: Store, node: int) -> str:
    """The last state of a node, as a condition."""
    last = max(round_ for at, round_ in rows(store, "state_configuration_change", "node_id", "round") if at == node)
    return f"node_id = {node} and round = {last}"


def test_a_healed_run_breaks_nothing(clean: Store) -> Planting:
    [run] = yield [Plant(clean)]
    assert (run.verdict, run.broken) == ("valid", set())


def test_every_disturbance_is_healed(clean: Store, ids: dict[str, int]) -> None:
    text = """select round, cause, node_id, n_subscribers, clean_round is not null, changed_round, problem
      from convergence order by disturbance"""
    assert answer(clean, text) == [
        (0, "start", None, 6, True, None, None),
        (40, "subscribe", ids["N7"], 7, True, None, None),
        (70, "unsubscribe", ids["N2"], 6, True, None, None),
        (100, "crash", ids["N5"], 5, True, None, None),
    ]
    text = "select n_wrong_labels, n_edges, diameter from convergence_round where n_subscribers = {} order by round"
    assert answer(clean, text.format(7))[-1] == (0, n_edges(7), 3)
    assert answer(clean, text.format(5))[-1] == (0, n_edges(5), 2)


def test_how_a_wrong_edge_went(clean: Store, ids: dict[str, int]) -> None:
    """N5 crashes: whoever held it does so no more, and the message that took it away is named."""
    text = f"""select side, until_round > 100, handled, is_last from edge_history
      where held_node_id = {ids["N5"]} and coalesce(until_round, 999) > 100 and name not in ('N2', 'N5')"""
    went = answer(clean, text)
    assert went
    assert all(not is_last and is_later for _, is_later, _, is_last in went)
    assert any("SetData from supervisor1" in (handled or ()) for _, _, handled, _ in went)
    text = f"select count(1) from edge_history where is_last and until_round is null and node_id <> {ids['N5']}"
    held = answer(clean, text)
    text = "select sum(n_on_ring + n_shortcuts) from ring_degree where until_round is null and node_id <> {}"
    assert held == answer(clean, text.format(ids["N5"]))


def test_an_edge_that_changes_later(clean: Store, ids: dict[str, int]) -> Planting:
    change = copied(last_change(clean, ids["N4"]), round=str(LATE), ring="null")
    [run] = yield [Plant(clean, state_configuration_change=change)]
    assert run.broken == {"closure"}
    [(node, detail)] = run.told("closure")
    assert node == "N4"
    assert detail.startswith("its label, edges or slots of topic news changed, which was legitimate since round 1")


def test_a_label_that_is_none_of_the_first(clean: Store, ids: dict[str, int]) -> Planting:
    change = copied(last_change(clean, ids["N4"]), round=str(LATE), label="'00001'")
    [run] = yield [Plant(clean, state_configuration_change=change)]
    assert run.told("labels") == [("N4", "it has label 00001 of topic news, and there are 5 subscribers")]


def test_two_subscribers_with_a_label(clean: Store, ids: dict[str, int]) -> Planting:
    of_n1 = last_change(clean, ids["N1"])
    [(taken,)] = answer(clean, f"select label from state_configuration_change where {of_n1}")
    change = copied(last_change(clean, ids["N4"]), round=str(LATE), label=f"'{taken}'")
    [run] = yield [Plant(clean, state_configuration_change=change)]
    assert run.told("labels") == [("N4", f"it has label {taken} of topic news, as node {ids['N1']} has")]


def test_edges_that_are_too_many(clean: Store, ids: dict[str, int]) -> Planting:
    members = [ids[name] for name in ("N1", "N3", "N4", "N6", "N7")]
    slots = (f"named_struct('label', '{node:06b}', 'node', cast({node} as bigint))" for node in members)
    everywhere = " or ".join(f"({last_change(clean, node)})" for node in members)
    change = copied(everywhere, round=str(LATE), slots=f"array({', '.join(slots)})")
    [run] = yield [Plant(clean, state_configuration_change=change)]
    assert run.broken == {"closure", "degrees", "drops_invalid_labels"}
    assert [detail for *_, detail in run.found("degrees")] == ["the ring of 5 has 10 edges, and SR(5) has 7"]


def test_a_reference_to_who_has_crashed(clean: Store, root: Path, ids: dict[str, int]) -> Planting:
    gone = f"array(named_struct('label', '1', 'node', cast({ids['N5']} as bigint)))"
    change = copied(last_change(clean, ids["N4"]), round=str(LATE), slots=gone)
    [run] = yield [Plant(clean, state_configuration_change=change)]
    assert run.broken == {"closure", "departed"}
    assert run.told("departed") == [
        ("N4", f"it refers to node {ids['N5']} in topic news, which has left it or is down")
    ]
    text = "select forgotten_round, n_left from crash_reference"
    assert answer(planted(clean, root, state_configuration_change=change), text) == [(None, 1)]


def test_a_database_with_who_has_left(clean: Store, ids: dict[str, int]) -> Planting:
    change = added(
        run_id=0, node_id=ids["supervisor1"], topic=NEWS, round=LATE, label="001", subscriber=ids["N2"], is_tuple=True
    )
    [run] = yield [Plant(clean, state_database_change=change)]
    assert run.broken == {"closure", "database", "departed", "tells_database"}
    assert [node for _, node, *_ in run.found("departed")] == ["supervisor1"]
    assert [node for _, node, *_ in run.found("closure")] == ["supervisor1"]


@pytest.mark.parametrize(("node", "is_told"), [("N1", True), ("N5", False)])
def test_a_stray_database_is_lost_with_the_node_that_crashes(
    clean: Store, ids: dict[str, int], node: str, is_told: bool
) -> Planting:
    """A node whose Timeout has not come cannot delete a database of its start; N5 has crashed by then."""
    change = added(
        run_id=0, node_id=ids[node], topic=NEWS, round=LATE, label="0011", subscriber=ids["N4"], is_tuple=True
    )
    [run] = yield [Plant(clean, state_database_change=change)]
    assert [told[1] for told in run.found("database")] == [node] * is_told


def test_a_publication_that_never_comes(clean: Store, ids: dict[str, int]) -> Planting:
    where = f"node_id = {ids['N6']} and publication.source = {ids['N1']} and publication.source_seq > 0"
    [run] = yield [Plant(clean, state_trie_node=removed(where))]
    assert run.broken == {"published_everywhere", "tries"}
    [(_, node, source, seq, detail)] = run.found("published_everywhere")
    assert (node, source, seq) == ("N6", "N1", 2)
    assert detail.startswith("lacks it, and tries of topic news are compared since round 1")
    assert run.verdict == "invalid"


def test_a_publication_that_its_publisher_forgets(clean: Store, ids: dict[str, int]) -> Planting:
    where = f"publication.source = {ids['N4']} and publication.source_seq > 0"
    [run] = yield [Plant(clean, state_trie_node=removed(where))]
    assert run.broken == {"published_everywhere", "tries"}
    assert [(node, source) for _, node, source, *_ in run.found("published_everywhere")] == [("N4", "N4")]


def test_who_has_left_and_lacks_it_is_not_accused(clean: Store, ids: dict[str, int]) -> None:
    lacking = rows(clean, "delivery", "subscriber", "source")
    assert (ids["N2"], ids["N4"]) not in lacking
    assert (ids["N7"], ids["N1"]) in lacking


def test_a_subscriber_that_crashes_before_a_slow_copy_arrives_is_not_owed_it(sail: Session, root: Path) -> Planting:
    """N3 crashes 16 rounds after a publication, of which the slowest delivery to the other nodes took 12 rounds."""
    starts = {"N1": 214, "N2": 185, "N3": 171, "N4": 214, "N5": 7, "N6": 12, "N7": 144, "N8": 61}
    run = scenario(
        protocol={
            "name": "skipring", "start": "arbitrary", "start_until": 0, "start_publications": 2, "max_label_bits": 6,
            "detection_rounds": 2,
        },
        overlay={"nodes": {"count": 8, "supervisors": 1}},
        workload={
            "subscriptions": [{"at": name, "round": at, "topic": "topic1"} for name, at in starts.items()],
            "publications": [{"at": name, "round": at, "topic": "topic1"} for name, at in (("N6", 380), ("N4", 410))],
        },
        faults=[{"kind": "crash", "node": "N3", "round": 426}],
        time={"rounds": 800},
        runs={"seeds": [21]},
    )  # fmt: skip
    store = run_all(run_configs([run]), sail, root)
    [audit] = yield [Plant(store)]
    owed = "select excuse, due_round from receiver where subscriber_name = 'N3' and source_name = 'N4'"
    assert [tuple(row) for row in StoreReader(sail, store.root).sql(owed).collect()] == [("subscriber_down", 422)]
    assert audit.verdict == "valid"


def test_runs_that_end_too_early_are_unknown(ended: Store, early: Store) -> Planting:
    late, soon = yield [Plant(ended), Plant(early)]
    assert (late.verdict, late.broken) == ("unknown", set())
    assert (soon.verdict, soon.broken) == ("unknown", set())
    [(problem,)] = answer(early, "select problem from convergence where is_last")
    assert [(run.run_id, run.reason) for run in soon.undecided] == [(0, f"topic {NEWS}: {problem}")]
    report = AuditReport((), tuple(soon.runs), (), tuple(soon.undecided), (), early.read("violation").toArrow())
    with redirect_stdout(StringIO()) as said:
        print_findings(Result(early.root, early.session), report)
    assert f"run 0 cannot be judged: topic {NEWS}: {problem}" in said.getvalue()


def test_tries_that_had_no_time_are_not_accused(ended: Store) -> Planting:
    """Run 1 has tries that differ at the end: that is too early to tell, and not a broken guarantee."""
    node = next(node for run, node in rows(ended, "state_trie_root", "run_id", "node_id") if run == 1)
    change = dict.fromkeys(("state_trie_node", "state_trie_root"), removed(f"run_id = 1 and node_id = {node}"))
    slow = "regexp_replace(parameters, 'max_delay\": ?4', 'max_delay\":99')"
    young, sure = yield [Plant(ended, **change, run=replaced("run_id = 1", parameters=slow)), Plant(ended, **change)]
    assert young.found("published_everywhere") == []
    assert young.runs[1].verdict == "unknown"
    assert len(sure.found("published_everywhere")) >= 1


def test_load_of_the_supervisor(clean: Store, ids: dict[str, int]) -> None:
    """A configuration in turn each interval, one for each request but those about N5, which has crashed (rule K8).

    N2 had a label that another subscriber gets then.
    """
    text = "select kind, reason, is_sent, sum(n_messages) from supervisor_load group by kind, reason, is_sent"
    load = {(kind, reason, is_sent): n for kind, reason, is_sent, n in answer(clean, text)}
    assert load["SetData", "round_robin", True] == HORIZON // SETTINGS["timeout_interval"]
    n5 = f"coalesce(cast(get_json_object(body, '$.subscriber') as bigint), src) = {ids['N5']}"
    text = f"""select count_if(kind = 'Subscribe'), count_if(kind = 'Unsubscribe'),
      count_if(kind in ('GetConfiguration', 'RequestFor') and not ({n5} and due_round > 100))
      from sent_message where dst = {ids["supervisor1"]} and fate = 'delivered'"""
    [asked] = answer(clean, text)
    assert tuple(load["SetData", reason, True] for reason in ("subscribe", "leave", "request")) == asked
    assert min(asked) >= 1
    assert load["SetData", "moved", True] == 1
    reasons = {reason for kind, reason, is_sent in load if kind == "GetConfiguration" and not is_sent}
    assert {"label", "minimum"} <= reasons <= {"label", "minimum", "silence"}


def test_ways_of_publications(clean: Store) -> None:
    """Six had the first one from the start, of whom N5 is down; N7 has it and that of N1 by tries."""
    text = "select via, n_publications, round(share * 17) from trie_way order by via"
    assert answer(clean, text) == [("flooding", 8, 8.0), ("publish", 2, 2.0), ("start", 5, 5.0), ("trie", 2, 2.0)]


def test_first_configuration_and_last_reference(clean: Store, ids: dict[str, int]) -> None:
    """N7 has a label when the first SetData comes; N5 is forgotten when the last edge to it is given up."""
    text = f"select min(due_round) from sent_message where kind = 'SetData' and dst = {ids['N7']}"
    [(came,)] = answer(clean, text)
    text = "select configured_round, waited_rounds from first_configuration where name = 'N7'"
    assert answer(clean, text) == [(came, came - 40)]
    text = "select max(until_round) from held_edge where held_name = 'N5' and until_round > 100 and name <> 'N5'"
    [(gone,)] = answer(clean, text)
    assert answer(clean, "select forgotten_round, forget_rounds from crash_reference") == [(gone, gone - 100)]


def test_views(clean: Store, ids: dict[str, int]) -> None:
    waited = answer(clean, "select name, configured_round, waited_rounds from first_configuration order by name")
    assert waited[0] == ("N1", -1, 0)
    assert next(rounds for name, _, rounds in waited if name == "N7") > 0
    text = "select n_earlier, full_rounds > 0, full_round > issued_round from first_configuration where name = 'N7'"
    assert answer(clean, text) == [(2, True, True)]
    text = "select n_earlier, full_rounds from first_configuration where name = 'N1'"
    assert answer(clean, text) == [(1, 0)]
    last = "select max(degree), sum(degree) from ring_degree where until_round is null and node_id <> {}"
    assert answer(clean, last.format(ids["N5"])) == [(max_degree(5), 2 * n_edges(5))]
    assert answer(clean, "select n_left from crash_reference") == [(0,)]
    text = "select source_name, n_messages, n_taken, n_duplicates from flooding order by source_name"
    assert answer(clean, text) == [("N1", 3 * 6 - 5, 5, 8), ("N4", 3 * 5 - 5, 4, 6)]
    kinds = answer(clean, "select kind, sum(n_messages) from maintenance_load where number = 100 group by kind")
    assert dict(kinds)["CheckTrie"] >= 5
    assert dict(kinds)["Introduce"] == 2 * 5


def test_why_a_flooded_publication_came(clean: Store) -> None:
    story = Result(clean.root, clean.session).why(0, "N6", "N4", call=2)
    assert (story.ended, story.late_rounds) == ("delivered", None)
    assert "hop" in story.verdict
    assert "fastest path" not in story.verdict


def test_why_a_publication_came_by_a_trie(clean: Store) -> None:
    story = Result(clean.root, clean.session).why(0, "N7", "N1", call=2)
    assert story.ended == "delivered"
    assert story.steps is not None
    copies = [one for one in story.steps.steps if one.data.get("to") == "N7"]
    assert [one.data["kind"] for one in copies] == ["Publish"]


def test_why_a_publication_is_not_there_yet(ended: Store) -> None:
    """It was published in the last round but one."""
    story = Result(ended.root, ended.session).why(0, "N6", "N1", call=2)
    assert story.ended == "unknown"
    assert "in flight at the end of the run" in story.verdict


def test_why_a_publication_waits_in_a_trie(clean: Store, root: Path, ids: dict[str, int]) -> None:
    where = f"node_id = {ids['N6']} and publication.source = {ids['N4']} and publication.source_seq > 0"
    got = f"subscriber = {ids['N6']} and source = {ids['N4']}"
    store = planted(clean, root, state_trie_node=removed(where), delivery=removed(got))
    story = Result(store.root, store.session).why(0, "N6", "N4", call=2)
    assert (story.ended, story.cause and story.cause.kind) == ("lost", "waiting")
    assert "4 of 5 subscribers have it, 0 have no label yet; the next CheckTrie spreads it" in story.verdict


def test_time_limits_wait_for_the_end_of_link_faults(sail: Session, root: Path) -> Planting:
    """N2 is cut off while N1 publishes; the last run heals, and ends 600 rounds later."""
    cut = {"kind": "partition", "groups": [["N2"]]}
    published = [{"at": "N1", "round": 40, "topic": NEWS}]
    runs = [
        ring("legitimate", subscribers(3), publications=published, faults=[{**cut, "round": 30, "until": 599}]),
        ring("empty", subscribers(2), faults=[{**cut, "until": 400}], rounds=1000),
    ]
    store = run_all(run_configs(runs), sail, root)
    [audit] = yield [Plant(store)]
    assert audit.broken == set()
    assert {run for run, *_ in audit.undecided} == {0}
    ends = StoreReader(sail, store.root).sql("select run_id, fault_round from fault_end order by run_id").collect()
    (_, first), (_, second) = ends
    assert first >= 599
    assert 400 <= second < 410  # a message that was on its way


def test_a_partition_that_does_not_end_is_beyond_the_bound(sail: Session, root: Path) -> Planting:
    """It cuts off N2, which subscribes; or N3, which does not, so that no message is lost; or it ends.

    In the last run one of two overlapping partitions does not end.
    """
    cut = {"kind": "partition", "groups": [["N2"]]}
    faults = [[cut], [{"kind": "partition", "groups": [["N3"]]}], [{**cut, "until": 300}], [{**cut, "until": 300}, cut]]
    store = run_all(run_configs([ring("empty", subscribers(2), faults=one, rounds=1000) for one in faults]), sail, root)
    [audit] = yield [Plant(store)]
    assert (audit.broken, audit.undecided) == (set(), [])
    report = audited(store, "skipring")
    assert [(run.verdict, run.within_bound) for run in report.runs] == [
        ("valid", False), ("valid", True), ("valid", True), ("valid", False),
    ]  # fmt: skip
    words = "the partition of round 0 lasts to the end of the run, and topics become legitimate only after it"
    assert [(one.run_id, one.reason) for one in report.beyond] == [(0, words), (3, words)]
    sent = rows(store, "message", "run_id", "fate", "sent_round")
    assert report.beyond[0].round == min(row[2] for row in sent if row[:2] == (0, "lost_link"))
