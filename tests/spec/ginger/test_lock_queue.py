"""The blocked-keys pass over an entry queue, and a broker's round as rows, without an engine."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pytest

from udfs.ginger.items import FIELDS, Item
from udfs.ginger.nodes import handle_nodes, handled_rows
from udfs.ginger.queue import Message, next_admitted

ROUND = 7


def message(seq: int, guarantee: str, *keys: str) -> Message:
    return Message("t", 9, seq, guarantee, keys, 1)


@pytest.mark.parametrize(
    ("queue", "locked", "admitted"),
    [
        ([], "", None),
        (["E a"], "", 0),
        (["E a"], "a", None),
        (["E a", "E b"], "a", 1),
        (["E a", "E a,b", "E b"], "a", None),
        (["T a"], "a", 0),
        (["E a", "T a"], "a", None),
        (["E a", "T b,c"], "a", 1),
        (["E a", "T a,b", "E b", "E c"], "a", 3),
        (["E -"], "a", 0),
    ],
)
def test_the_first_message_that_may_enter(queue: list[str], locked: str, admitted: int | None) -> None:
    """E waits for a locked key, and everything for a key of an earlier message that waits."""
    messages = [
        message(position, "total" if text[0] == "T" else "causal", *text[2:].replace("-", "").split(","))
        for position, text in enumerate(queue)
    ]
    assert next_admitted(messages, set(filter(None, locked.split(",")))) == admitted


def tree(parent: int | None = None, children: Iterable[int] = (), clients: Iterable[int] = ()) -> list[Item]:
    """Neighbours, all of them in the sub-tree of topic t."""
    relationship = {**dict.fromkeys(children, "child"), **dict.fromkeys(clients, "client")}
    if parent is not None:
        relationship[parent] = "parent"
    neighbours = [Item("neighbour", node, kind=kind, peer=node) for node, kind in sorted(relationship.items())]
    subscribers = [
        Item("subscriber", node, kind="client" if kind == "client" else "broker", peer=node, topic="t")
        for node, kind in sorted(relationship.items())
    ]
    return neighbours + subscribers


def due(position: int, kind: str, sender: int, about: Message, covered: list[int] | None = None) -> Item:
    return Item(
        "inbox", position, kind, sender, about.topic, about.source, about.source_seq, about.guarantee, list(about.keys),
        about.issued_round, 1, covered,
    )  # fmt: skip


def sent(rows: Iterable[Item]) -> list[tuple[str | None, int | None, int | None]]:
    return [(row.kind, row.peer, row.source_seq) for row in rows if row.relation == "out"]


def state(rows: Iterable[Item]) -> list[Item]:
    return [row for row in rows if row.relation in ("pending", "entry_queue")]


def test_a_total_order_message_goes_down_then_up_then_all_around() -> None:
    """Figure 3.2 at an inner broker: parent 0, children 2 and 3; child 2 brings it."""
    about = message(1, "total", "k")
    around = tree(0, (2, 3), (9,))
    first = handled_rows(1, ROUND, [*around, due(1, "Metadata", 2, about, [2, 20])])
    assert sent(first) == [("Metadata", 3, 1)]
    second = handled_rows(1, ROUND + 1, [*around, *state(first), due(2, "TotalAck", 3, about, [3])])
    assert sent(second) == [("Metadata", 0, 1)]
    (up,) = [row for row in second if row.relation == "out"]
    assert up.covered == [1, 2, 3, 9, 20]
    third = handled_rows(1, ROUND + 2, [*around, *state(second), due(3, "TotalProcessed", 0, about)])
    assert sent(third) == [("Metadata", 9, 1), ("TotalProcessed", 2, 1), ("TotalProcessed", 3, 1)]
    assert state(third) == []


def test_what_a_client_brings_waits_for_the_lock_and_what_a_broker_brings_does_not() -> None:
    about, entering, passing = message(1, "total", "k"), message(2, "causal", "k"), message(3, "causal", "k")
    around = tree(0, (2,), (9,))
    first = handled_rows(
        1, ROUND,
        [*around, due(1, "Metadata", 0, about), due(2, "Metadata", 9, entering), due(3, "Metadata", 2, passing)],
    )  # fmt: skip
    assert sent(first) == [("Metadata", 2, 1), ("Metadata", 0, 3), ("Metadata", 9, 3)]
    assert [row.source_seq for row in state(first) if row.relation == "entry_queue"] == [2]
    second = handled_rows(
        1, ROUND + 1, [*around, *state(first), due(4, "TotalAck", 2, about), due(5, "TotalProcessed", 0, about)]
    )  # fmt: skip
    assert sent(second) == [
        ("TotalAck", 0, 1),
        *[("Metadata", 9, 1), ("TotalProcessed", 2, 1)],
        *[("Metadata", 0, 2), ("Metadata", 2, 2), ("Metadata", 9, 2)],
    ]


def test_a_later_message_on_the_key_is_told_the_parent_after_the_earlier() -> None:
    one, other = message(1, "total", "k"), message(2, "total", "k", "l")
    around = tree(0, (2,))
    first = handled_rows(1, ROUND, [*around, due(1, "Metadata", 0, one), due(2, "Metadata", 0, other)])
    second = handled_rows(1, ROUND + 1, [*around, *state(first), due(3, "TotalAck", 2, other)])
    assert sent(second) == []
    third = handled_rows(1, ROUND + 2, [*around, *state(second), due(4, "TotalAck", 2, one)])
    assert sent(third) == [("TotalAck", 0, 1), ("TotalAck", 0, 2)]


def test_the_topics_root_processes_in_the_order_of_arrival() -> None:
    one, other, free = message(1, "total", "k"), message(2, "total", "k"), message(3, "total", "m")
    around = tree(None, (2, 3))
    first = handled_rows(0, ROUND, [*around, *(due(m.source_seq, "Metadata", 2, m) for m in (one, other, free))])
    acks = [due(10 + m.source_seq, "TotalAck", 3, m) for m in (other, free, one)]
    rows = handled_rows(0, ROUND + 1, [*around, *state(first), *acks])
    processed = [(kind, to, seq) for kind, to, seq in sent(rows) if to == 2]
    assert processed == [("TotalProcessed", 2, 3), ("TotalProcessed", 2, 1), ("TotalProcessed", 2, 2)]


def test_rows_of_many_nodes_go_through_in_one_batch() -> None:
    about = message(1, "eventual", "k")
    nodes = [(1, [*tree(0, (2,)), due(1, "Metadata", 0, about)]), (9, [Item("neighbour", 1, kind="edge", peer=1)])]
    nodes[1][1].append(due(1, "Metadata", 1, about))
    item = pa.struct(list(FIELDS))
    items = [[row._asdict() for row in of] for _, of in nodes]
    batch = pa.record_batch({
        "run_id": [4, 4], "node_id": [node for node, _ in nodes], "round": [ROUND, ROUND],
        "items": pa.array(items, pa.list_(item)),
    })  # fmt: skip
    (out,) = handle_nodes([batch])
    rows = [(row["node_id"], row["relation"], row["kind"], row["peer"]) for row in out.to_pylist()]
    assert rows == [(1, "out", "Metadata", 2), (9, "delivered", None, None)]
    assert set(out["run_id"].to_pylist()) == {4}
    assert all(position >> 20 == ROUND for position in out["position"].to_pylist())
