"""Single steps of `ginger` as dataflow on small frames: subscriptions, the tree, and what nodes handle.

Broker 1 is below 0 and above 2 and 3; its client is 9.
"""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import DataFrame, types as T
from support.frames import found, frame

from pipelines.contract.in_flight import in_flight_schema
from pipelines.engines.session import Session
from pipelines.protocols.ginger import handling, parts, subscribe, tree
from pipelines.protocols.ginger.tables import (
    CONTACT,
    METADATA_BUFFER,
    NEIGHBOUR,
    PART,
    PAYLOAD,
    SUBSCRIBE,
    SUBSCRIBER,
)
from udfs.ginger.tree import NEIGHBOURS

INBOX = in_flight_schema(PAYLOAD)
LAST = 2**62
"""The trigger of calls, after every message of the round."""
LONG, TEXT = T.LongType(), T.StringType()


def columns(table: T.StructType | None = None, **more: T.DataType) -> T.StructType:
    """The columns of a table and more."""
    return T.StructType([*(table or ()), *(T.StructField(name, kind) for name, kind in more.items())])


KNOWN = columns(SUBSCRIBE.schema, trigger=LONG, round=LONG)
ROWS = columns(PART.schema, round=LONG)
CALL = columns(
    run_id=LONG, node_id=LONG, source_seq=LONG, round=LONG, kind=TEXT, subscription_id=LONG, topic=TEXT,
    guarantee=TEXT, keys=T.ArrayType(TEXT),
)  # fmt: skip


@pytest.fixture(scope="module")
def neighbour(sail: Session) -> DataFrame:
    """Of broker 1, of client 9, and of broker 6, which has a client alone."""
    rows = [(1, 0, "parent"), (1, 2, "child"), (1, 3, "child"), (1, 9, "client"), (9, 1, "edge"), (6, 8, "client")]
    return frame(sail, NEIGHBOUR.schema, *(
        {"node_id": n, "neighbour": o, "relationship": kind, "latency_rounds": 2} for n, o, kind in rows
    ))  # fmt: skip


def steps(*entries: tuple[int, int, str]) -> list[dict[str, Any]]:
    return [{"address": a, "hop_count": hops, "direction": way} for a, hops, way in entries]


@pytest.fixture(scope="module")
def inbox(sail: Session) -> DataFrame:
    """Subscription 5 comes from client 9, and 6 from child 2; 8 subscribes at 6; something else comes, too."""
    message = {"kind": "Subscribe", "dst": 1, "topic": "t", "due_round": 20, "source_seq": 1}
    return frame(
        sail, INBOX,
        {**message, "message_id": 50, "src": 9, "source": 9, "subscription_id": 5, "path": []},
        {**message, "message_id": 51, "src": 2, "source": 7, "subscription_id": 6, "edge": 5,
         "path": steps((2, 0, "up"), (5, 1, "up"))},
        {**message, "message_id": 52, "src": 8, "source": 8, "subscription_id": 7, "dst": 6, "path": []},
        {**message, "message_id": 53, "src": 3, "source": 9, "subscription_id": 5, "kind": "Subscribed"},
    )  # fmt: skip


def test_a_client_subscribes_at_its_edge_broker(sail: Session, neighbour: DataFrame) -> None:
    kinds = [("subscribe", 1), ("publish", 2)]
    calls = frame(sail, CALL, *(
        {"node_id": 9, "kind": kind, "source_seq": seq, "round": 20, "subscription_id": 5, "topic": "t"}
        for kind, seq in kinds
    ))  # fmt: skip
    out = subscribe.issued(calls, neighbour)
    assert found(out, "trigger rank kind src dst sent_round source source_seq subscription_id topic path") == [
        (LAST + 1, 0, "Subscribe", 9, 1, 20, 9, 1, 5, "t", [])
    ]


def test_subscribe_goes_on_to_all_other_brokers_with_the_way_so_far(
    sail: Session, inbox: DataFrame, neighbour: DataFrame
) -> None:
    """The way has two entries at most: this broker and one before it; the edge broker is the first that got it."""
    setting = frame(sail, "max_hops", {"max_hops": 2})
    out = subscribe.forwarded(subscribe.onward(inbox, neighbour), setting)
    assert found(out, "subscription_id dst src trigger kind sent_round edge path") == [
        (5, 0, 1, 50, "Subscribe", 20, 1, [(1, 0, "up")]),
        (5, 2, 1, 50, "Subscribe", 20, 1, [(1, 0, "down")]),
        (5, 3, 1, 50, "Subscribe", 20, 1, [(1, 0, "down")]),
        (6, 0, 1, 51, "Subscribe", 20, 5, [(1, 0, "up"), (2, 1, "up")]),
        (6, 3, 1, 51, "Subscribe", 20, 5, [(1, 0, "down"), (2, 1, "up")]),
    ]


def test_a_broker_waits_for_all_brokers_that_it_asks(inbox: DataFrame, neighbour: DataFrame) -> None:
    """For three of a client's, for two of what one of them brought, and for none where there are none."""
    noted = subscribe.noted(inbox, neighbour)
    assert found(noted, "node_id subscription_id edge next_hop n_waiting trigger round") == [
        (1, 5, 1, 9, 3, 50, 20), (1, 6, 5, 2, 2, 51, 20), (6, 7, 6, 8, 0, 52, 20),
    ]  # fmt: skip


def test_answers_are_counted_and_the_last_one_is_answered(sail: Session) -> None:
    """Two have answered 5, and one 6; nothing is new of 7 and 8, which one broker still has to answer."""
    waiting = {5: 2, 6: 2, 7: 0, 8: 1}
    known = frame(sail, KNOWN, *(
        {"node_id": 1, "subscription_id": s, "topic": "t", "source": 9, "source_seq": s, "next_hop": 9, "n_waiting": n,
         "trigger": 40 if s == 8 else None, "round": 19 if s == 8 else None}
        for s, n in waiting.items()
    ))  # fmt: skip
    said = [(5, 60, "Subscribed"), (5, 61, "Subscribed"), (6, 62, "Subscribed"), (8, 63, "Subscribe")]
    answers = frame(sail, INBOX, *(
        {"dst": 1, "subscription_id": s, "message_id": m, "kind": kind, "due_round": 20, "source": 9, "source_seq": s}
        for s, m, kind in said
    ), {"dst": 9, "subscription_id": 5, "message_id": 64, "kind": "Subscribed", "due_round": 20, "source": 9,
        "source_seq": 5}, {"dst": 9, "kind": "Metadata", "source": 9, "source_seq": 1, "due_round": 20})  # fmt: skip
    after = subscribe.answered(known, answers)
    assert found(after, "subscription_id n_waiting trigger round") == [
        (5, 0, 61, 20), (6, 1, 62, 20), (7, 0, None, None), (8, 1, 40, 19),
    ]  # fmt: skip
    assert found(subscribe.confirmations(after), "kind src dst trigger subscription_id") == [
        ("Subscribed", 1, 9, 61, 5)
    ]
    assert found(subscribe.confirmed(answers), "source source_seq round event") == [(9, 5, 20, "confirmed")]


def test_a_broker_is_in_a_sub_tree_with_clients_or_between_two_neighbours(sail: Session) -> None:
    """t comes from 2 and 3, u twice from 2, v from client 9, w from 9 and from 2; 6 knows of t alone."""
    came = [("t", 2, 70), ("t", 3, 71), ("u", 2, 70), ("u", 2, 71), ("v", 9, 9), ("w", 9, 9), ("w", 2, 70)]
    known = frame(sail, SUBSCRIBE.schema, *(
        {"node_id": 1, "topic": t, "next_hop": hop, "source": s, "subscription_id": k}
        for k, (t, hop, s) in enumerate(came)
    ), {"node_id": 6, "topic": "t", "next_hop": 2, "source": 70, "subscription_id": 9})  # fmt: skip
    subscriber = subscribe.subscribers(known)
    assert found(subscriber, "node_id topic neighbour relationship") == [
        (1, "t", 2, "broker"), (1, "t", 3, "broker"), (1, "v", 9, "client"),
        (1, "w", 2, "broker"), (1, "w", 9, "client"),
    ]  # fmt: skip
    others = frame(sail, SUBSCRIBER.schema, {"node_id": 0, "topic": "t", "neighbour": 1, "relationship": "broker"})
    members = subscribe.members(known, subscriber.unionByName(others))
    assert found(members, "node_id topic members") == [
        (1, "t", [0, 1]), (1, "v", [1, 9]), (1, "w", [1, 9]), (6, "t", [0, 1]),
    ]  # fmt: skip


NODES = [(0, "B0", "broker"), (1, "B1", "broker"), (2, "B2", "broker"), (9, "C9", "client")]
LATENCY = {(0, 1): 3, (1, 2): 4, (1, 9): 5}


def nodes(sail: Session) -> DataFrame:
    return frame(sail, "node_id name role", *({"node_id": n, "name": name, "role": role} for n, name, role in NODES))


def links(sail: Session, latency: dict[tuple[int, int], int]) -> DataFrame:
    return frame(sail, "src dst latency_rounds", *(
        {"src": a, "dst": b, "latency_rounds": k} for pair, k in latency.items() for a, b in (pair, pair[::-1])
    ))  # fmt: skip


def test_brokers_may_ask_those_that_they_link_to_and_joiners_their_join_point(sail: Session) -> None:
    """2 joins at 1, and has a link to 0 beside."""
    joining = frame(sail, "node_id join_point", {"node_id": 2, "join_point": 1})
    near = tree.contacts(nodes(sail), links(sail, LATENCY | {(0, 2): 6}), joining)
    assert found(near, "node_id contact latency_rounds is_joining") == [
        (0, 1, 3, False), (0, 2, 6, False), (1, 0, 3, False), (1, 2, 4, False), (2, 1, 4, True),
    ]  # fmt: skip


@pytest.mark.parametrize(("root", "parents"), [(None, [(1, 0), (2, 1)]), ("B1", [(0, 1), (2, 1)])])
def test_the_root_is_the_first_broker_unless_another_is_named(
    sail: Session, root: str | None, parents: list[tuple[int, int]]
) -> None:
    schema = columns(run_id=LONG, root=TEXT, max_hops=T.IntegerType())
    rows = tree.seen(nodes(sail), links(sail, LATENCY), frame(sail, schema, {"root": root, "max_hops": 3}))
    near = tree.neighbours(rows)
    assert found(near.where("relationship = 'parent'"), "node_id neighbour") == parents
    assert found(near.where("relationship = 'edge'"), "node_id neighbour latency_rounds") == [(9, 1, 5)]


def test_neighbours_and_what_is_farther_are_told_apart(sail: Session) -> None:
    kinds = ["parent", "child", "client", "edge", "ancestor", "sibling"]
    schema = columns(**{name: TEXT if kind == "string" else LONG for name, kind in NEIGHBOURS})
    rows = frame(sail, schema, *({"node_id": 1, "peer": k, "relationship": kind} for k, kind in enumerate(kinds)))
    assert found(tree.neighbours(rows), "neighbour") == [(0,), (1,), (2,), (3,)]
    assert found(tree.tree_views(rows), "peer") == [(4,), (5,)]


def test_a_client_that_subscribes_to_a_topic_may_publish_on_it(sail: Session) -> None:
    kinds = [("publish", "t"), ("subscribe", "t"), ("publish", "s"), ("join", "u")]
    calls = frame(sail, CALL, *({"node_id": 9, "kind": kind, "topic": topic} for kind, topic in kinds))
    assert found(tree.client_topics(calls), "topic usage") == [("s", "published"), ("t", "subscribed")]


def test_messages_come_with_the_rounds_that_they_took_and_publications_as_calls(sail: Session) -> None:
    kinds = [("Metadata", 50), ("Subscribe", 51)]
    inbox = frame(sail, INBOX, *(
        {"kind": kind, "message_id": m, "src": 0, "dst": 1, "sent_round": 17, "due_round": 20} for kind, m in kinds
    ))  # fmt: skip
    items = handling.inbox_items(inbox)
    assert found(items, "node_id relation position kind peer latency_rounds round") == [
        (1, "inbox", 50, "Metadata", 0, 3, 20)
    ]
    call = {"node_id": 9, "source_seq": 4, "round": 20, "topic": "t", "guarantee": "total", "keys": ["l", "k"]}
    calls = frame(sail, CALL, *({**call, "kind": kind} for kind in ("publish", "subscribe")))
    published = handling.call_items(calls)
    assert found(published, "node_id position kind source source_seq keys issued_round") == [
        (9, LAST + 4, "publish", 9, 4, ["k", "l"], 20)
    ]


def test_a_broker_that_joins_asks_the_nearest_first_before_all_else(sail: Session) -> None:
    near = {4: 3, 5: 1, 6: 3}
    contact = frame(sail, CONTACT.schema, *({"node_id": 1, "contact": c, "latency_rounds": k} for c, k in near.items()))
    who = frame(sail, "node_id round", {"node_id": 1, "round": 20})
    items = handling.join_items(contact, who, "JOINING")
    assert found(items, "node_id position kind covered acked details round") == [
        (1, -1, "Join", [5, 4, 6], [1, 3, 3], "JOINING", 20)
    ]


RELATIONS = ("neighbour", "subscriber", "tree_view", "client_topic", "member", "pending")


@pytest.fixture(scope="module")
def part(sail: Session) -> DataFrame:
    """All relations at 1, in a run that may be mended, at 2, in one that is not, and at 3, which handles nothing."""
    rows = ({"node_id": n, "relation": name, "position": 0} for n in (1, 2, 3) for name in RELATIONS)
    return frame(sail, PART.schema, *rows)


@pytest.fixture(scope="module")
def touched(sail: Session) -> DataFrame:
    return frame(sail, "node_id is_mended", {"node_id": 1, "is_mended": True}, {"node_id": 2, "is_mended": False})


def by_node(rows: DataFrame) -> dict[int, set[str]]:
    pairs = found(rows, "node_id relation")
    return {node: {name for of, name in pairs if of == node} for node, _ in pairs}


def test_only_where_the_tree_may_be_mended_nodes_see_all_that_they_have(part: DataFrame, touched: DataFrame) -> None:
    few = {"neighbour", "subscriber", "pending"}
    assert by_node(handling.known(part, touched)) == {1: {*RELATIONS}, 2: few}


def test_what_nodes_leave_behind_replaces_what_may_have_changed(
    sail: Session, part: DataFrame, touched: DataFrame
) -> None:
    """Without mending the tree stays as it is; what nodes send and do is no part of them."""
    gone = ("out", "delivered", "history", "connected", "status")
    rows = frame(sail, ROWS, *({"node_id": 1, "relation": name, "position": 1} for name in (*gone, "hold")))
    after = by_node(handling.parts_after(rows, part, touched))
    assert after == {1: {"client_topic", "member", "hold"}, 2: {*RELATIONS} - {"pending"}, 3: {*RELATIONS}}


def test_nodes_get_their_buffers_and_the_settings_where_the_tree_may_be_mended(
    sail: Session, touched: DataFrame
) -> None:
    buffer = frame(sail, METADATA_BUFFER.schema, *({"node_id": n, "position": n, "event": "passed"} for n in (1, 3)))
    names = "total_degree max_hops timer_rounds buffer_size collect_every"
    mode, history = handling.memory(buffer, touched, frame(sail, names, dict.fromkeys(names.split(), 4)))
    assert found(history, "node_id relation kind position") == [(1, "history", "passed", 1)]
    settings = '{"total_degree":4,"max_hops":4,"timer":4,"buffer_size":4,"collect_every":4}'
    assert found(mode, "node_id relation details") == [(1, "mode", settings)]


@pytest.fixture(scope="module")
def rows(sail: Session) -> DataFrame:
    """One row of each kind that node 1 may leave behind."""
    done = {"node_id": 1, "source": 9, "source_seq": 4, "round": 20, "topic": "t"}
    return frame(
        sail, ROWS,
        {**done, "relation": "out", "position": 1, "kind": "Metadata", "peer": 2, "hops": 3, "latency_rounds": 2},
        {**done, "relation": "delivered", "position": 2, "hops": 3, "issued_round": 13},
        {**done, "relation": "history", "position": 3, "kind": "passed"},
        {**done, "relation": "connected", "position": 4, "peer": 7, "latency_rounds": 2},
        {**done, "relation": "status", "position": 5, "kind": "OPERATIONAL"},
        {**done, "relation": "status", "position": 6, "kind": "ISOLATED"},
        {**done, "relation": "repair", "position": 7, "kind": "OPERATIONAL"},
    )  # fmt: skip


def test_what_nodes_leave_behind_becomes_relations(rows: DataFrame) -> None:
    sent = handling.sent(rows)
    assert found(sent, "trigger rank kind src dst sent_round source source_seq hops latency_rounds") == [
        (1, 0, "Metadata", 1, 2, 20, 9, 4, 3, 2)
    ]
    delivery = handling.deliveries(rows)
    assert found(delivery, "subscriber source source_seq round latency_rounds hops") == [(1, 9, 4, 20, 7, 3)]
    assert found(handling.delivered(rows), "node_id source source_seq") == [(1, 9, 4)]
    assert found(handling.buffered(rows), "node_id event position") == [(1, "passed", 3)]
    assert found(handling.statuses(rows), "node_id round status") == [(1, 20, "ISOLATED"), (1, 20, "OPERATIONAL")]
    assert found(handling.joined(rows), "source source_seq round event") == [(1, 1, 20, "confirmed")]


def test_neighbours_hear_of_a_crash_when_all_has_come_and_a_delay_after(
    sail: Session, rows: DataFrame, neighbour: DataFrame
) -> None:
    """Over links of two rounds, with detection after five; also who connects to a node that is down."""
    setting = frame(sail, "detection_rounds", {"detection_rounds": 5})
    crashed = frame(sail, "node_id round", {"node_id": 1, "round": 20})
    out = handling.detections(crashed, neighbour, setting)
    shown = "src dst trigger kind sent_round details latency_rounds"
    assert found(out, shown) == [(9, 9, 1, "NeighborDown", 20, "1", 7)]
    down = frame(sail, "node_id round", {"node_id": 7, "round": 12}, {"node_id": 2, "round": 12})
    assert found(handling.failed_connections(rows, down, setting), shown) == [(1, 1, 7, "NeighborDown", 20, "7", 7)]


def test_buffers_are_without_what_has_left_them(sail: Session) -> None:
    """Of topic t all up to position 2 has left, and of its own publications what was up to 1; nothing of topic s."""
    events = [
        ("t", "passed", 1), ("t", "processed", 2), ("t", "passed", 3), ("t", "left", 1), ("t", "left", 2),
        ("t", "published", 1), ("t", "published", 2), ("t", "collected", 1), ("s", "passed", 1), ("s", "published", 1),
    ]  # fmt: skip
    increments = frame(sail, METADATA_BUFFER.schema, *(
        {"node_id": 1, "topic": topic, "event": event, "position": position} for topic, event, position in events
    ))  # fmt: skip
    (compact,) = [state.compact for state in parts.STATES if state.table == METADATA_BUFFER]
    assert compact is not None
    assert found(compact(increments), "topic event position") == [
        ("s", "passed", 1), ("s", "published", 1), ("t", "passed", 3), ("t", "published", 2),
    ]  # fmt: skip
