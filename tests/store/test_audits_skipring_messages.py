"""Audits of single messages, states and tuples of protocol skipring find what is planted in a run without violations.

In the run N7 joins, N2 leaves and N5 crashes. N6 is alone in two topics, and N8 has no subscription.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from pipelines.engines.session import Session
from pipelines.store.store import Store
from pipelines.testing import (
    Change,
    added,
    audited,
    broken,
    copied,
    found,
    planted,
    removed,
    replaced,
    rows,
    run_all,
    run_configs,
    scenario,
)

NEWS = "news"
LATE = 350
"""A round in which all topics are legitimate."""
NEW_ID = 1 << 40
RUN = scenario(
    protocol={"name": "skipring", "start": "legitimate", "start_until": 0, "timeout_interval": 4, "max_delay": 4,
              "silence_intervals": 6, "detection_rounds": 3},
    overlay={"nodes": {"count": 8, "supervisors": 2}},
    workload={
        "subscriptions": [
            *({"at": f"N{number}", "topic": NEWS} for number in (1, 3, 4, 5)),
            {"at": "N2", "topic": NEWS, "until": 70}, {"at": "N6", "topic": "sport"}, {"at": "N6", "topic": "weather"},
            {"at": "N7", "topic": NEWS, "round": 40},
        ],
        "publications": [{"at": "N1", "round": 60, "topic": NEWS}],
    },
    faults=[{"kind": "crash", "node": "N5", "round": 100}],
    time={"rounds": 400},
)  # fmt: skip


class Ring(NamedTuple):
    """The store without violations: its node ids, and an inner node of the ring with both list neighbours."""

    store: Store
    root: Path
    ids: dict[str, int]
    inner: str
    left: int
    right: int

    @property
    def node(self) -> int:
        return self.ids[self.inner]

    @property
    def last_state(self) -> str:
        """The condition for the last state of the inner node."""
        changes = rows(self.store, "state_configuration_change", "node_id", "round")
        return f"node_id = {self.node} and round = {max(round_ for at, round_ in changes if at == self.node)}"

    def first(self, where: str) -> tuple[int, int]:
        """Returns id and due round of the first message that satisfies a condition, sent after round `LATE`."""
        frame = self.store.read("message").where(f"sent_round > {LATE} and fate = 'delivered' and {where}")
        [row] = frame.orderBy("message_id").limit(1).collect()
        return row["message_id"], row["due_round"]

    def details(self, audit: str, **changes: Change) -> list[tuple[str, str]]:
        """Returns the nodes and details of the violations that an audit finds in a store with the changes."""
        store = planted(self.store, self.root, **changes)
        return [(node, detail) for _, node, _, _, detail in found(store, audit, "skipring")]


@pytest.fixture(scope="module")
def ring(sail: Session, tmp_path_factory: pytest.TempPathFactory) -> Ring:
    root = tmp_path_factory.mktemp("messages_skipring")
    store = run_all(run_configs([RUN]), sail, root)
    ids = {name: node for node, name in rows(store, "node", "node_id", "name")}
    frame = store.read("state_configuration_change").where(f"topic = '{NEWS}'").orderBy("round")
    last = {row["node_id"]: row for row in frame.collect()}
    inner = next(name for name in ("N1", "N3", "N4", "N7") if last[ids[name]]["left"] and last[ids[name]]["right"])
    own = last[ids[inner]]
    return Ring(store, root, ids, inner, own["left"]["node"], own["right"]["node"])


def test_nothing_is_found_in_the_run(ring: Ring) -> None:
    report = audited(ring.store, "skipring")
    assert (report.verdict, broken(report)) == ("valid", {})


@pytest.mark.parametrize(("side", "other", "word"), [("left", "right", "left"), ("right", "left", "right")])
def test_a_neighbour_on_the_wrong_side(ring: Ring, side: str, other: str, word: str) -> None:
    change = copied(ring.last_state, round=str(LATE), **{side: f"`{other}`"})
    [(node, detail)] = ring.details("orders_neighbours", state_configuration_change=change)
    assert node == ring.inner
    assert f"and its new {word} neighbour is N" in detail


def test_a_neighbour_with_the_label_of_a_slot(ring: Ring) -> None:
    """No introduction and no configuration of the round names N1 with label 0000001 (rule K2)."""
    peer = f"named_struct('node', cast({ring.ids['N1']} as bigint), 'label', '0000001')"
    change = copied(ring.last_state, round=str(LATE), ring=peer)
    [(node, detail)] = ring.details("known_references", state_configuration_change=change)
    assert (node, "it has on its ring N1 with label 0000001" in detail) == (ring.inner, True)


def test_an_introduction_with_the_label_of_a_slot(ring: Ring) -> None:
    own, _ = ring.first(f"kind = 'Introduce' and src = {ring.node}")
    body = f"regexp_replace(body, '\"node\":{ring.node},', '\"node\":{ring.ids['N8']},')"
    [(node, detail)] = ring.details("known_references", message=replaced(f"message_id = {own}", body=body))
    assert (node, "it forwards N8 with label" in detail) == (ring.inner, True)


def test_a_configuration_that_is_not_adopted(ring: Ring) -> None:
    """The subscriber keeps another label, or a neighbour that the configuration does not name."""
    _, due = ring.first(f"kind = 'SetData' and dst = {ring.node}")
    other = f"named_struct('node', cast({ring.ids['N1']} as bigint), 'label', '0000001')"
    for change in ({"label": "'0000001'"}, {"ring": other}):
        state = copied(ring.last_state, round=str(due), **change)
        told = ring.details("adopts_configuration", state_configuration_change=state)
        assert {node for node, _ in told} == {ring.inner}


def test_a_nearer_neighbour_without_a_request(ring: Ring) -> None:
    """The configuration names no predecessor, so the subscriber has to request both neighbours."""
    sent, _ = ring.first(f"kind = 'SetData' and dst = {ring.node}")
    without = """regexp_replace(body, '"predecessor":[{][^}]*[}][}]', '"predecessor":null')"""
    told = ring.details("requests_nearer", message=replaced(f"message_id = {sent}", body=without))
    assert [node for node, _ in told] == [ring.inner] * 2


@pytest.mark.parametrize(("kind", "n_answers"), [("Introduce", 1), ("IntroduceShortcut", 2), ("SetData", 1)])
def test_a_node_without_the_topic_that_keeps_silent(ring: Ring, kind: str, n_answers: int) -> None:
    to = f"kind = '{kind}' and body like '%{NEWS}%'"
    sent, _ = ring.first(to)
    change = copied(f"message_id = {sent}", message_id=str(NEW_ID), src=str(ring.ids["N6"]), dst=str(ring.ids["N8"]))
    told = ring.details("rejects_strangers", message=change)
    assert [node for node, _ in told] == ["N8"] * n_answers
    assert all(f"handles {kind}, and sends no " in detail for _, detail in told)


def test_a_silent_neighbour(ring: Ring) -> None:
    """The left neighbour does not introduce itself after round 200, and nobody requests a configuration."""
    to = f"kind = 'Introduce' and src = {ring.left} and dst = {ring.node} and sent_round > 200"
    told = ring.details("asks_when_silent", message=removed(to))
    assert [node for node, _ in told] == [ring.inner]
    sent, _ = ring.first(f"kind = 'SetData' and dst = {ring.node}")
    answered = copied(
        f"message_id = {sent}",
        message_id=str(NEW_ID), kind="'GetConfiguration'", src=str(ring.node), sent_round="300",
        body=f"""'{{"topic":"{NEWS}","reason":"silence"}}'""",
    )  # fmt: skip
    assert ring.details("asks_when_silent", message=lambda frame: answered(removed(to)(frame))) == []


@pytest.mark.parametrize(
    ("at", "label", "subscriber", "what"),
    [
        ("supervisor", "001", "N1", "node {} has label "),
        ("supervisor", "00001", "N8", "it is none of the first 5 labels"),
        ("supervisor", "001", None, "the tuple has no subscriber"),
        ("supervisor", "001", "N5", "the crash of node {} was reported in round 103"),
        ("N8", "0", "N8", "it is not the supervisor of the topic"),
    ],
    ids=["several_labels", "wrong_label", "no_subscriber", "crashed", "other_node"],
)
def test_a_database_that_is_not_repaired(ring: Ring, at: str, label: str, subscriber: str | None, what: str) -> None:
    of_topic = ring.store.read("state_database_change").where(f"topic = '{NEWS}'").collect()
    node = of_topic[0]["node_id"] if at == "supervisor" else ring.ids[at]
    change = added(
        run_id=0, node_id=node, topic=NEWS, round=LATE, label=label, is_tuple=True,
        subscriber=None if subscriber is None else ring.ids[subscriber],
    )  # fmt: skip
    told = [detail for _, detail in ring.details("repairs_database", state_database_change=change)]
    assert any(what.format(ring.ids.get(str(subscriber))) in detail for detail in told), told


@pytest.mark.parametrize("kind", ["CheckTrie", "Introduce"])
def test_a_timeout_without_an_action(ring: Ring, kind: str) -> None:
    where = f"kind = '{kind}' and src = {ring.node} and sent_round between {LATE} and {LATE + 3}"
    told = ring.details("acts_at_timeouts", message=removed(where))
    assert {node for node, _ in told} == {ring.inner}
    assert all(f"it sends no {kind}" in detail for _, detail in told)


def test_a_message_that_takes_too_long(ring: Ring) -> None:
    sent, _ = ring.first(f"kind = 'Introduce' and src = {ring.node}")
    [(node, detail)] = ring.details(
        "bounded_delays", message=replaced(f"message_id = {sent}", due_round="sent_round + 5")
    )
    assert (node, detail.endswith("takes 5 rounds; allowed: 1 to 4")) == (ring.inner, True)


@pytest.mark.parametrize(("is_reordering", "is_broken"), [(False, False), (True, True)])
def test_a_delay_lasts_beyond_its_fault_if_messages_keep_their_order(
    ring: Ring, is_reordering: bool, is_broken: bool
) -> None:
    sent, _ = ring.first(f"kind = 'Introduce' and src = {ring.node}")
    kind = "reorder" if is_reordering else "delay"
    begins, ends = added(run_id=0, round=0, kind=kind), added(run_id=0, round=1, kind=f"{kind}_end")
    late = replaced(f"message_id = {sent}", due_round="sent_round + 5")
    told = ring.details("bounded_delays", message=late, fault_event=lambda frame: ends(begins(frame)))
    assert bool(told) is is_broken


def test_draws_that_agree(ring: Ring) -> None:
    """N6 never requests its configurations: both topics agree in all intervals."""
    told = ring.details("draws_independently", message=removed(f"kind = 'GetConfiguration' and src = {ring.ids['N6']}"))
    assert {node for node, _ in told} == {"N6"}
    assert any(detail.startswith("topics sport and weather: ") for _, detail in told)


@pytest.mark.parametrize(("kind", "side"), [("GetConfiguration", "dst"), ("SetData", "src")])
def test_another_supervisor(ring: Ring, kind: str, side: str) -> None:
    sent, _ = ring.first(f"kind = '{kind}' and body like '%{NEWS}%'")
    supervisors = f"{ring.ids['supervisor1']} + {ring.ids['supervisor2']}"
    change = replaced(f"message_id = {sent}", **{side: f"{supervisors} - {side}"})
    told = ring.details("one_supervisor", message=change)
    assert len(told) == 1
    assert f"topic {NEWS}: it sends {kind} to " in told[0][1]


def test_a_request_without_an_answer(ring: Ring) -> None:
    told = ring.details("answers_requests", message=removed(f"kind = 'SetData' and sent_round > {LATE}"))
    assert told
    assert all("it handles GetConfiguration, and sends no SetData to N" in detail for _, detail in told)


@pytest.mark.parametrize("label", ["10", "0" * 62 + "1"])
def test_an_invalid_label(ring: Ring, label: str) -> None:
    change = copied(ring.last_state, round=str(LATE), label=f"'{label}'")
    told = ring.details("drops_invalid_labels", state_configuration_change=change)
    assert told == [(ring.inner, f"topic {NEWS}: it stores label {label}")]


def test_a_message_with_an_invalid_label(ring: Ring) -> None:
    sent, _ = ring.first(f"kind = 'Introduce' and src = {ring.node}")
    body = """regexp_replace(body, '"bits":[0-9]+', '"bits":63')"""
    told = ring.details("drops_invalid_labels", message=replaced(f"message_id = {sent}", body=body))
    assert told == [(ring.inner, f"topic {NEWS}: it sends Introduce with an invalid label")]


def test_a_configuration_that_the_database_lacks(ring: Ring) -> None:
    """The history has no tuple of label 1."""
    where = f"topic = '{NEWS}' and label = '1'"
    told = ring.details("tells_database", state_database_change=removed(where))
    assert told
    assert all(f"topic {NEWS}: it tells label 1 of node " in detail for _, detail in told)
