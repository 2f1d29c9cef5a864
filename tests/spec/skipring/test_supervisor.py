"""The supervisor: repair of its database, requests, round-robin, joins and leaves, crashes (sections 3.1, 3.3, 4.1)."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest
from support.skipring import SETTINGS, TOPIC, network, sent

from udfs.nodes.context import Context, Internal
from udfs.nodes.local import LocalNetwork
from udfs.skipring.labels import Label, label_of
from udfs.skipring.messages import SetData
from udfs.skipring.state import Contact, Database, Supervisor, point_of, responsible
from udfs.skipring.supervisor import Supervision, repaired

Entries = dict[Label, int | None]


def entries(**of_digits: int | None) -> Entries:
    """Returns a database from labels, written as ``_01``."""
    return {Label(len(digits) - 1, int(digits[1:], 2)): node for digits, node in of_digits.items()}


def supervised(held: Entries, crashed: frozenset[int] = frozenset()) -> tuple[Supervision, Database, Context]:
    database, ctx = Database(TOPIC, -1, held), Context(-1, 7, SETTINGS, Internal())
    return Supervision(database, crashed), database, ctx


def configurations(ctx: Context) -> list[tuple[int, str]]:
    """Returns receiver and configuration of what has been sent: predecessor, label, successor."""
    rows = []
    for dst, m, _ in ctx.sent:
        assert isinstance(m, SetData)
        beside = [one.node if one else "-" for one in (m.predecessor, m.successor)]
        rows.append((dst, f"{beside[0]} {m.label or '-'} {beside[1]}"))
    return rows


def recorded(played: LocalNetwork) -> dict[int, str]:
    """Returns the label of each subscriber by the database."""
    return {node: str(label) for label, node in played.node(-1).database[TOPIC].entries.items()}


@pytest.mark.parametrize(
    ("held", "right"),
    [
        (entries(_0=5, _1=None, _01=7), entries(_0=5, _1=7)),
        (entries(_0=5, _1=6, _01=5), entries(_0=5, _1=6)),
        (entries(_0=5, _01=7, _11=8), entries(_0=5, _1=8, _01=7)),
        (entries(_0=5, _1=6, _0111=9), entries(_0=5, _1=6, _01=9)),
        (entries(_0=5, _10=6, _0111=9), entries(_0=5, _1=6, _01=9)),
        (entries(_001=1, _011=2, _101=3), entries(_0=3, _1=2, _01=1)),
        ({}, {}),
    ],
    ids=["no subscriber", "several labels", "label missing", "label too high", "no l(x)", "all too high", "empty"],
)
def test_repair(held: Entries, right: Entries) -> None:
    assert repaired(held, ()) == right


def test_repair_of_any_database_leaves_each_subscriber_one_of_the_lowest_labels() -> None:
    drawn = Random(3)
    for _ in range(500):
        held: Entries = {}
        for _ in range(drawn.randrange(30)):
            bits = drawn.randint(1, 6)
            held[Label(bits, drawn.randrange(1 << bits))] = drawn.choice([None, *range(1, 20)])
        crashed = {node for node in range(1, 20) if drawn.random() < 0.2}
        right = repaired(held, crashed)
        assert set(right) == {label_of(index) for index in range(len(right))}
        assert sorted(right.values()) == sorted({node for node in held.values() if node} - crashed)
        assert repaired(right, crashed) == right


def test_repair_sends_nothing() -> None:
    _, database, ctx = supervised(entries(_0=5, _111=None, _10=7, _01=5), frozenset({5}))
    assert database.entries == entries(_0=7)
    assert ctx.sent == []


def test_configurations_go_round() -> None:
    supervision, _, ctx = supervised(entries(_0=5, _1=6, _01=7))
    for _ in range(4):
        supervision.timeout(ctx)
    assert configurations(ctx) == [(5, "6 0 7"), (6, "7 1 5"), (7, "5 01 6"), (5, "6 0 7")]


def test_one_or_two_subscribers() -> None:
    supervision, _, ctx = supervised({})
    supervision.timeout(ctx)
    supervision.integrate(5, "subscribe", ctx)
    supervision.integrate(6, "subscribe", ctx)
    supervision.integrate(5, "request", ctx)
    assert configurations(ctx) == [(5, "- 0 -"), (6, "5 1 5"), (5, "6 0 6")]


def test_a_request_by_another_records_nobody() -> None:
    supervision, database, ctx = supervised(entries(_0=5))
    supervision.request_for(9, ctx)
    supervision.request_for(5, ctx)
    assert configurations(ctx) == [(9, "- - -"), (5, "- 0 -")]
    assert database.entries == entries(_0=5)


@pytest.mark.parametrize(
    ("leaver", "right", "told"),
    [
        (5, entries(_0=7, _1=6), [(7, "6 0 6"), (5, "- - -")]),
        (7, entries(_0=5, _1=6), [(7, "- - -")]),
        (9, entries(_0=5, _1=6, _01=7), [(9, "- - -")]),
    ],
    ids=["another one is moved", "the last one", "not recorded"],
)
def test_unsubscribe(leaver: int, right: Entries, told: list[tuple[int, str]]) -> None:
    supervision, database, ctx = supervised(entries(_0=5, _1=6, _01=7))
    supervision.unsubscribe(leaver, ctx)
    assert database.entries == right
    assert configurations(ctx) == told


def test_requests_for_crashed_subscribers_are_ignored() -> None:
    supervision, database, ctx = supervised(entries(_0=5), frozenset({6}))
    supervision.integrate(6, "request", ctx)
    supervision.request_for(6, ctx)
    supervision.unsubscribe(6, ctx)
    assert ctx.sent == []
    assert database.entries == entries(_0=5)


@pytest.mark.parametrize(("leaves_last", "n_messages"), [(False, 2), (True, 1)])
def test_messages_of_the_supervisor_per_join_and_leave(leaves_last: bool, n_messages: int) -> None:
    given = {"n_others": 1, "start_until": 0, "timeout_interval": 40, "max_delay": 1}
    labels = {label: node for node, label in recorded(network(8, **given)).items()}
    played = network(8, **given)
    played.call(9, "subscribe", 10, topic=TOPIC, subscription_id=77)
    leaver, subscription = (9, 77) if leaves_last else (labels["01"], labels["01"])
    played.call(leaver, "unsubscribe", 200, subscription_id=subscription)
    played.play(300)
    reasons = [one.message.reason for one in sent(played) if one.kind == "SetData"]
    assert reasons.count("subscribe") == 1
    assert [reasons.count(reason) for reason in ("moved", "leave")] == [n_messages - 1, 1]


def test_a_crash_is_remembered() -> None:
    played = network(4)
    played.crash(2, 5)
    played.play(40)
    supervisor = played.node(-1)
    assert set(supervisor.crashed) == {2}
    assert sorted(supervisor.database[TOPIC].entries.values()) == [1, 3, 4]


def test_topics_belong_to_the_first_supervisor_clockwise() -> None:
    topics = [f"topic{number}" for number in range(200)]
    supervisors = [Supervisor(-one, point_of(f"supervisor{one}")) for one in (1, 2, 3)]
    for topic in topics:
        after = [one for one in supervisors if one.point >= point_of(topic)]
        first = min(after or supervisors, key=lambda one: one.point)
        assert responsible(topic, supervisors) == first.node
    assert len({responsible(topic, supervisors) for topic in topics}) == 3
    less = supervisors[:2]
    moved = [topic for topic in topics if responsible(topic, less) != responsible(topic, supervisors)]
    assert {responsible(topic, supervisors) for topic in moved} == {-3}


def test_the_place_of_a_contact_goes_by_value_then_id() -> None:
    one, other = Contact(3, label_of(2)), Contact(4, label_of(2))
    assert Contact(9, label_of(4)).key < one.key < other.key < Contact(1, label_of(1)).key


def test_actions_keep_the_database_as_a_repair_of_all_of_it_would() -> None:
    """The database is repaired where an action changes it: as if all of it was repaired before and after."""
    drawn = Random(5)
    for _ in range(60):
        held: Entries = {Label(bits, drawn.randrange(1 << bits)): drawn.choice([None, *range(1, 20)])
                         for bits in (drawn.randint(1, 6) for _ in range(drawn.randrange(20)))}  # fmt: skip
        plain, crashed, told = repaired(held, ()), set[int](), dict(held)
        database, ctx = Database(TOPIC, -1, held), Context(-1, 7, SETTINGS, Internal())
        supervision = Supervision(database, crashed)
        for _ in range(30):
            node, action = drawn.randint(1, 24), drawn.choice(("join", "leave", "crash", "timeout"))
            last = label_of(len(plain) - 1)
            at = next((label for label, one in plain.items() if one == node), None)
            if action == "join":
                supervision.integrate(node, "subscribe", ctx)
                if at is None and node not in crashed:
                    plain[label_of(len(plain))] = node
            elif action == "timeout":
                supervision.timeout(ctx)
            else:
                if action == "crash":
                    crashed.add(node)
                    supervision.remove(node)
                else:
                    supervision.unsubscribe(node, ctx)
                if at is not None and (action == "crash" or node not in crashed):
                    moved = plain.pop(last)
                    plain |= {at: moved} if at != last else {}
            assert database.entries == plain == repaired(plain, crashed)
        for label, before in supervision.changed.items():
            assert before == ((told[label],) if label in told else None)


def test_a_timeout_repairs_what_was_corrupted_since() -> None:
    supervision, database, ctx = supervised(entries(_0=5, _1=6, _01=7))
    database.entries[label_of(1)] = 5
    supervision.timeout(ctx)
    assert database.entries == entries(_0=5, _1=7)


def n_steps(n: int) -> int:
    """Returns how many tuples a join reads at a database of n subscribers."""
    supervision, database, ctx = supervised({label_of(index): index + 1 for index in range(n)})
    n_read = 0

    class Counted(dict[Label, int | None]):
        def __getitem__(self, label: Label) -> int | None:
            nonlocal n_read
            n_read += 1
            return super().__getitem__(label)

        def __iter__(self) -> Iterator[Label]:
            nonlocal n_read
            n_read += len(self)
            return super().__iter__()

    database.entries = Counted(database.entries)
    supervision = Supervision(database, ())
    n_read = 0
    supervision.integrate(n + 1, "subscribe", ctx)
    return n_read


def test_a_join_reads_as_many_tuples_at_any_size() -> None:
    assert n_steps(10) == n_steps(1000) <= 5
