"""Audits of single messages, states and tuples of protocol skipring find what is planted in a run without violations.

In the run N7 joins, N2 leaves and N5 crashes. N6 is alone in two topics, and N8 has no subscription.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pytest
from support.copies import Plant, Planting

from pipelines.engines.session import Session
from pipelines.store.store import Store
from pipelines.testing import Change, added, copied, removed, replaced, rows, run_all, run_configs, scenario

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
    ids: dict[str, int]
    inner: str
    left: int
    right: int

    @property
    def node(self) -> int:
        return self.ids[self.inner]

    def plant(self, **changes: Change | Sequence[Change]) -> Plant:
        return Plant(self.store, **changes)

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


@pytest.fixture(scope="module")
def clean(sail: Session, tmp_path_factory: pytest.TempPathFactory) -> Store:
    return run_all(run_configs([RUN]), sail, tmp_path_factory.mktemp("messages_skipring"))


@pytest.fixture(scope="module")
def ring(clean: Store) -> Ring:
    ids = {name: node for node, name in rows(clean, "node", "node_id", "name")}
    frame = clean.read("state_configuration_change").where(f"topic = '{NEWS}'").orderBy("round")
    last = {row["node_id"]: row for row in frame.collect()}
    inner = next(name for name in ("N1", "N3", "N4", "N7") if last[ids[name]]["left"] and last[ids[name]]["right"])
    own = last[ids[inner]]
    return Ring(clean, ids, inner, own["left"]["node"], own["right"]["node"])


def test_nothing_is_found_in_the_run(ring: Ring) -> Planting:
    [run] = yield [ring.plant()]
    assert (run.verdict, run.broken) == ("valid", set())


@pytest.mark.parametrize(("side", "other", "word"), [("left", "right", "left"), ("right", "left", "right")])
def test_a_neighbour_on_the_wrong_side(ring: Ring, side: str, other: str, word: str) -> Planting:
    change = copied(ring.last_state, round=str(LATE), **{side: f"`{other}`"})
    [run] = yield [ring.plant(state_configuration_change=change)]
    assert run.broken == {"closure", "orders_neighbours"}
    [(node, detail)] = run.told("orders_neighbours")
    assert node == ring.inner
    assert f"and its new {word} neighbour is N" in detail


def test_a_neighbour_with_the_label_of_a_slot(ring: Ring) -> Planting:
    """No introduction and no configuration of the round names N1 with label 0000001 (rule K2)."""
    peer = f"named_struct('node', cast({ring.ids['N1']} as bigint), 'label', '0000001')"
    change = copied(ring.last_state, round=str(LATE), ring=peer)
    [run] = yield [ring.plant(state_configuration_change=change)]
    assert run.broken == {"adopts_configuration", "closure", "known_references"}
    [(node, detail)] = run.told("known_references")
    assert (node, "it has on its ring N1 with label 0000001" in detail) == (ring.inner, True)


def test_an_introduction_with_the_label_of_a_slot(ring: Ring) -> Planting:
    own, _ = ring.first(f"kind = 'Introduce' and src = {ring.node}")
    body = f"regexp_replace(body, '\"node\":{ring.node},', '\"node\":{ring.ids['N8']},')"
    [run] = yield [ring.plant(message=replaced(f"message_id = {own}", body=body))]
    assert run.broken == {"acts_at_timeouts", "known_references"}
    [(node, detail)] = run.told("known_references")
    assert (node, "it forwards N8 with label" in detail) == (ring.inner, True)


def test_a_configuration_that_is_not_adopted(ring: Ring) -> Planting:
    """The subscriber keeps another label, or a neighbour that the configuration does not name."""
    _, due = ring.first(f"kind = 'SetData' and dst = {ring.node}")
    other = f"named_struct('node', cast({ring.ids['N1']} as bigint), 'label', '0000001')"
    states = [{"label": "'0000001'"}, {"ring": other}]
    changes = [copied(ring.last_state, round=str(due), **state) for state in states]
    runs = yield [ring.plant(state_configuration_change=change) for change in changes]
    for run in runs:
        assert {node for node, _ in run.told("adopts_configuration")} == {ring.inner}


def test_a_nearer_neighbour_without_a_request(ring: Ring) -> Planting:
    """The configuration names no predecessor, so the subscriber has to request both neighbours."""
    sent, _ = ring.first(f"kind = 'SetData' and dst = {ring.node}")
    without = """regexp_replace(body, '"predecessor":[{][^}]*[}][}]', '"predecessor":null')"""
    [run] = yield [ring.plant(message=replaced(f"message_id = {sent}", body=without))]
    assert run.broken == {"requests_nearer"}
    told = run.told("requests_nearer")
    assert [node for node, _ in told] == [ring.inner] * 2


@pytest.mark.parametrize(("kind", "n_answers"), [("Introduce", 1), ("IntroduceShortcut", 2), ("SetData", 1)])
def test_a_node_without_the_topic_that_keeps_silent(ring: Ring, kind: str, n_answers: int) -> Planting:
    to = f"kind = '{kind}' and body like '%{NEWS}%'"
    sent, _ = ring.first(to)
    change = copied(f"message_id = {sent}", message_id=str(NEW_ID), src=str(ring.ids["N6"]), dst=str(ring.ids["N8"]))
    [run] = yield [ring.plant(message=change)]
    told = run.told("rejects_strangers")
    assert [node for node, _ in told] == ["N8"] * n_answers
    assert all(f"handles {kind}, and sends no " in detail for _, detail in told)


def test_a_silent_neighbour(ring: Ring) -> Planting:
    """The left neighbour does not introduce itself after round 200, and nobody requests a configuration."""
    to = f"kind = 'Introduce' and src = {ring.left} and dst = {ring.node} and sent_round > 200"
    sent, _ = ring.first(f"kind = 'SetData' and dst = {ring.node}")
    answered = copied(
        f"message_id = {sent}",
        message_id=str(NEW_ID), kind="'GetConfiguration'", src=str(ring.node), sent_round="300",
        body=f"""'{{"topic":"{NEWS}","reason":"silence"}}'""",
    )  # fmt: skip
    silent, asking = yield [ring.plant(message=removed(to)), ring.plant(message=[removed(to), answered])]
    assert [node for node, _ in silent.told("asks_when_silent")] == [ring.inner]
    assert asking.told("asks_when_silent") == []


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
def test_a_database_that_is_not_repaired(
    ring: Ring, at: str, label: str, subscriber: str | None, what: str
) -> Planting:
    of_topic = ring.store.read("state_database_change").where(f"topic = '{NEWS}'").collect()
    node = of_topic[0]["node_id"] if at == "supervisor" else ring.ids[at]
    change = added(
        run_id=0, node_id=node, topic=NEWS, round=LATE, label=label, is_tuple=True,
        subscriber=None if subscriber is None else ring.ids[subscriber],
    )  # fmt: skip
    [run] = yield [ring.plant(state_database_change=change)]
    told = [detail for _, detail in run.told("repairs_database")]
    assert any(what.format(ring.ids.get(str(subscriber))) in detail for detail in told), told


@pytest.mark.parametrize("kind", ["CheckTrie", "Introduce"])
def test_a_timeout_without_an_action(ring: Ring, kind: str) -> Planting:
    where = f"kind = '{kind}' and src = {ring.node} and sent_round between {LATE} and {LATE + 3}"
    [run] = yield [ring.plant(message=removed(where))]
    assert run.broken == {"acts_at_timeouts"}
    told = run.told("acts_at_timeouts")
    assert {node for node, _ in told} == {ring.inner}
    assert all(f"it sends no {kind}" in detail for _, detail in told)


def test_a_message_that_takes_too_long(ring: Ring) -> Planting:
    sent, _ = ring.first(f"kind = 'Introduce' and src = {ring.node}")
    [run] = yield [ring.plant(message=replaced(f"message_id = {sent}", due_round="sent_round + 5"))]
    assert run.broken == {"bounded_delays"}
    [(node, detail)] = run.told("bounded_delays")
    assert (node, detail.endswith("takes 5 rounds; allowed: 1 to 4")) == (ring.inner, True)


@pytest.mark.parametrize(("is_reordering", "is_broken"), [(False, False), (True, True)])
def test_a_delay_lasts_beyond_its_fault_if_messages_keep_their_order(
    ring: Ring, is_reordering: bool, is_broken: bool
) -> Planting:
    sent, _ = ring.first(f"kind = 'Introduce' and src = {ring.node}")
    kind = "reorder" if is_reordering else "delay"
    begins, ends = added(run_id=0, round=0, kind=kind), added(run_id=0, round=1, kind=f"{kind}_end")
    late = replaced(f"message_id = {sent}", due_round="sent_round + 5")
    [run] = yield [ring.plant(message=late, fault_event=[begins, ends])]
    told = run.told("bounded_delays")
    assert bool(told) is is_broken


def test_draws_that_agree(ring: Ring) -> Planting:
    """N6 never requests its configurations: both topics agree in all intervals."""
    [run] = yield [ring.plant(message=removed(f"kind = 'GetConfiguration' and src = {ring.ids['N6']}"))]
    assert run.broken == {"draws_independently"}
    told = run.told("draws_independently")
    assert {node for node, _ in told} == {"N6"}
    assert any(detail.startswith("topics sport and weather: ") for _, detail in told)


@pytest.mark.parametrize(("kind", "side"), [("GetConfiguration", "dst"), ("SetData", "src")])
def test_another_supervisor(ring: Ring, kind: str, side: str) -> Planting:
    sent, _ = ring.first(f"kind = '{kind}' and body like '%{NEWS}%'")
    supervisors = f"{ring.ids['supervisor1']} + {ring.ids['supervisor2']}"
    change = replaced(f"message_id = {sent}", **{side: f"{supervisors} - {side}"})
    [run] = yield [ring.plant(message=change)]
    told = run.told("one_supervisor")
    assert len(told) == 1
    assert f"topic {NEWS}: it sends {kind} to " in told[0][1]


def test_a_request_without_an_answer(ring: Ring) -> Planting:
    [run] = yield [ring.plant(message=removed(f"kind = 'SetData' and sent_round > {LATE}"))]
    assert run.broken == {"answers_requests"}
    told = run.told("answers_requests")
    assert told
    assert all("it handles GetConfiguration, and sends no SetData to N" in detail for _, detail in told)


@pytest.mark.parametrize("label", ["10", "0" * 62 + "1"])
def test_an_invalid_label(ring: Ring, label: str) -> Planting:
    change = copied(ring.last_state, round=str(LATE), label=f"'{label}'")
    [run] = yield [ring.plant(state_configuration_change=change)]
    assert run.broken == {"adopts_configuration", "closure", "database", "drops_invalid_labels", "labels"}
    told = run.told("drops_invalid_labels")
    assert told == [(ring.inner, f"topic {NEWS}: it stores label {label}")]


def test_a_message_with_an_invalid_label(ring: Ring) -> Planting:
    sent, _ = ring.first(f"kind = 'Introduce' and src = {ring.node}")
    body = """regexp_replace(body, '"bits":[0-9]+', '"bits":63')"""
    [run] = yield [ring.plant(message=replaced(f"message_id = {sent}", body=body))]
    assert run.broken == {"drops_invalid_labels"}
    told = run.told("drops_invalid_labels")
    assert told == [(ring.inner, f"topic {NEWS}: it sends Introduce with an invalid label")]


def test_a_configuration_that_the_database_lacks(ring: Ring) -> Planting:
    """The history has no tuple of label 1."""
    where = f"topic = '{NEWS}' and label = '1'"
    [run] = yield [ring.plant(state_database_change=removed(where))]
    assert run.broken == {"repairs_database", "tells_database"}
    told = run.told("tells_database")
    assert told
    assert all(f"topic {NEWS}: it tells label 1 of node " in detail for _, detail in told)
