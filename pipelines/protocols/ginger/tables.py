"""What the nodes of protocol ``ginger`` keep between rounds, and what their messages carry."""

from __future__ import annotations

from pyspark.sql import types as T

from pipelines.tables import BIGINT, BOOLEAN, INT, LONGS, STRING, table

STRINGS = T.ArrayType(STRING)
PATH = T.ArrayType(
    T.StructType(
        [
            T.StructField("address", BIGINT),
            T.StructField("hop_count", INT),
            T.StructField("direction", STRING),
        ]
    )
)
"""The brokers that passed a message on, the last first: hops since then, and whether it went up or down."""

APPLICATION = ("Metadata", "TotalAck", "TotalProcessed", "Failed")
REPAIR = (
    "NeighborDown", "Timer", "ParentRequest", "ParentResponse", "ParentBuffer", "LostMessageRequest", "LostMessages",
    "TreeViewUpdate", "RootElection", "Exception", "Repeat",
    "JoinTopic", "TopicJoined", "Received", "Collect",
)  # fmt: skip
KINDS = ("Subscribe", "Subscribed", *APPLICATION, *REPAIR)
HANDLED = frozenset({*APPLICATION, *REPAIR, "publish", "join"})
"""Kinds of messages and calls that nodes handle one by one."""
PAYLOAD = T.StructType(
    [
        T.StructField("subscription_id", BIGINT),
        T.StructField("edge", BIGINT),
        T.StructField("path", PATH),
        T.StructField("topic", STRING),
        T.StructField("guarantee", STRING),
        T.StructField("keys", STRINGS),
        T.StructField("covered", LONGS),
        T.StructField("hops", BIGINT),
        T.StructField("issued_round", BIGINT),
        T.StructField("details", STRING),
    ]
)
BODY = """case when kind = 'Subscribe' then
    to_json(named_struct('topic', topic, 'subscription_id', subscription_id, 'edge', edge,
      'path', path))
  when kind in ('Exception', 'Repeat') then to_json(named_struct('topic', topic, 'lacking', cast(details as bigint)))
  when kind = 'JoinTopic' or (kind = 'TopicJoined' and details is null) then to_json(named_struct('topic', topic))
  when kind = 'NeighborDown' then to_json(named_struct('peer', cast(details as bigint)))
  when details is not null then details
  when kind = 'Subscribed' then to_json(named_struct('subscription_id', subscription_id))
  else to_json(named_struct('topic', topic, 'keyItems', keys, 'deliveryGuarantee', guarantee, 'covered', covered,
    'hops', hops)) end"""

_BROKER = ("node_id", BIGINT, "the broker")
_MESSAGE = (
    ("topic", STRING, "topic of the message"),
    ("source", BIGINT, "client that published it"),
    ("source_seq", BIGINT, "number of the publication at its client"),
)
_ORDER = (
    ("guarantee", STRING, "its delivery guarantee"),
    ("keys", STRINGS, "its key items"),
    ("issued_round", BIGINT, "round in which it was issued"),
)
NEIGHBOUR = table(
    "neighbour", "a neighbour of a node in the tree", "node_id,neighbour",
    ("node_id", BIGINT, "the node"),
    ("neighbour", BIGINT, "the neighbour"),
    ("relationship", STRING, "what it is to the node: parent, child or client; edge: the broker of a client"),
    ("latency_rounds", BIGINT, "rounds from one to the other"),
)  # fmt: skip
PART = table(
    "part", "a part of what a node keeps, as it handles it; the tables of the parts show them by relation",
    "node_id,relation,position,topic",
    ("node_id", BIGINT, "the node"),
    ("relation", STRING, "name of the table that shows it, without state_"),
    ("position", BIGINT, "ascending in the order that counts within the relation"),
    ("kind", STRING, "relationship, kind of message, or where it came from"),
    ("peer", BIGINT, "the other node that it is about"),
    *_MESSAGE, *_ORDER,
    ("hops", BIGINT, "links it travelled over; tree_view: steps upwards"),
    ("covered", LONGS, "nodes known to have locked its keys; member: who has to"),
    ("acked", LONGS, "children that acknowledged it"),
    ("sent", LONGS, "what the parent was told of the covered"),
    ("latency_rounds", BIGINT, "rounds to the other node"),
    ("details", STRING, "JSON, as messages carry it"),
)  # fmt: skip
CONTACT = table(
    "contact", "a broker that another one asks first when it joins, or recovers after a failure", "node_id,contact",
    _BROKER,
    ("contact", BIGINT, "the other broker: the one to join at, or a neighbour in the overlay"),
    ("latency_rounds", BIGINT, "rounds from one to the other"),
    ("is_joining", BOOLEAN, "whether the broker joins while the run goes on"),
)  # fmt: skip
SUBSCRIBE = table(
    "subscribe", "a Subscribe message that a broker has had", "node_id,subscription_id",
    _BROKER,
    ("subscription_id", BIGINT, "the subscription"),
    ("topic", STRING, "its topic"),
    ("source", BIGINT, "the client that subscribes"),
    ("source_seq", BIGINT, "number of the call at the client"),
    ("edge", BIGINT, "the client's edge broker"),
    ("next_hop", BIGINT, "neighbour that sent the message"),
    ("n_waiting", BIGINT, "neighbours that have still to answer it"),
)  # fmt: skip
SUBSCRIBER = table(
    "subscriber", "a neighbour in the sub-tree of a topic", "node_id,topic,neighbour",
    _BROKER,
    ("topic", STRING, "the topic"),
    ("neighbour", BIGINT, "neighbour through which there are subscribers, or a client that subscribes"),
    ("relationship", STRING, "broker or client"),
)  # fmt: skip
PENDING = table(
    "pending", "a total-order message that is not processed yet (linearT)", "node_id,topic,source,source_seq",
    _BROKER, *_MESSAGE, *_ORDER,
    ("arrival", BIGINT, "ascending in the order in which messages came"),
    ("came_from", STRING, "below: from a client or a child; above: from the parent"),
    ("hops", BIGINT, "links it travelled over"),
    ("covered", LONGS, "nodes known to have locked its keys"),
    ("acked", LONGS, "children that acknowledged it (childrenAcks)"),
    ("sent", LONGS, "what the parent was told of the covered; null: nothing yet"),
)  # fmt: skip
LOCKED = table(
    "locked", "a key item that a total-order message locks", "node_id,topic,key_item,source,source_seq",
    _BROKER, *_MESSAGE, ("key_item", STRING, "the key item"),
)  # fmt: skip
ENTRY_QUEUE = table(
    "entry_queue", "a client's message that waits at its edge broker", "node_id,topic,source,source_seq",
    _BROKER, *_MESSAGE, *_ORDER,
    ("arrival", BIGINT, "ascending in the order in which messages came"),
    ("client", BIGINT, "the client that brought it"),
    ("hops", BIGINT, "links it travelled over"),
)  # fmt: skip
METADATA_BUFFER = table(
    "metadata_buffer", "an event in the life of a message at a broker", "node_id,position",
    _BROKER,
    ("position", BIGINT, "ascending in the order of events"),
    ("event", STRING, "passed: sent on, or locked; processed: unlocked and delivered in total order; clients:"
     " published, delivered"),
    *_MESSAGE, *_ORDER,
    ("hops", BIGINT, "links it travelled over"),
)  # fmt: skip
DISCARDED = table(
    "discarded", "what has left a node's buffer of a topic", "node_id,topic",
    ("node_id", BIGINT, "the node"),
    ("topic", STRING, "the topic"),
    ("position", BIGINT, "no event up to this position is in the buffer"),
    ("ids", STRING, "JSON, left: event, source, source_seq and hops of each, in order; collected: what everybody has"
     " had, by source runs of numbers"),
)  # fmt: skip
PARKED = table(
    "parked", "what a partner told, put aside until messages are repeated that have left its buffer", "node_id,partner",
    ("node_id", BIGINT, "the node"),
    ("partner", BIGINT, "the partner"),
    ("kind", STRING, "kind of message"),
    ("body", STRING, "its body"),
)  # fmt: skip
GAP = table(
    "gap", "a message that a node lacks and that has left the buffer of its partner", "node_id,source,source_seq",
    ("node_id", BIGINT, "the node"),
    *_MESSAGE,
    ("guarantee", STRING, "its delivery guarantee, when it has been repeated"),
    ("status", STRING, "open; given_up: its publisher did not repeat it"),
)  # fmt: skip
EXCEPTION = table(
    "exception", "a client that was told that somebody lacks a message of its", "node_id,source,source_seq,lacking",
    ("node_id", BIGINT, "the client"),
    *_MESSAGE,
    ("lacking", BIGINT, "the node that lacks it"),
)  # fmt: skip
TREE_VIEW = table(
    "tree_view", "a broker that a node sees beyond its neighbours", "node_id,peer",
    ("node_id", BIGINT, "the node"),
    ("peer", BIGINT, "the broker"),
    ("relationship", STRING, "ancestor or sibling"),
    ("n_up", BIGINT, "steps upwards from it, before"),
    ("n_down", BIGINT, "steps downwards to the node"),
    ("latency_rounds", BIGINT, "rounds from one to the other"),
)  # fmt: skip
CLIENT_TOPIC = table(
    "client_topic", "a topic that a client works on", "node_id,topic",
    ("node_id", BIGINT, "the client"),
    ("topic", STRING, "the topic"),
    ("usage", STRING, "subscribed, or only published"),
)  # fmt: skip
MEMBER = table(
    "member", "a topic that a broker has heard of, and who has to lock the key items of its messages", "node_id,topic",
    _BROKER,
    ("topic", STRING, "the topic"),
    ("members", LONGS, "brokers of the sub-tree and clients that subscribe"),
)  # fmt: skip
HOLD = table(
    "hold", "an application message that is held while the broker is reconfigured", "node_id,position",
    _BROKER,
    ("position", BIGINT, "ascending in the order of release"),
    ("kind", STRING, "kind of message"),
    ("sender", BIGINT, "node that sent it"),
    *_MESSAGE, *_ORDER,
    ("hops", BIGINT, "links it travelled over"),
    ("covered", LONGS, "nodes known to have locked its keys"),
    ("details", STRING, "Failed: JSON, the broker that failed and whether it is still down"),
)  # fmt: skip
AWAIT = table(
    "await", "a new child or client whose missing messages a broker awaits", "node_id,partner",
    _BROKER, ("partner", BIGINT, "the node"),
)  # fmt: skip
FAILED = table(
    "failed", "a broker that is known to have failed", "node_id,failed",
    _BROKER, ("failed", BIGINT, "the other broker"),
)  # fmt: skip
REPAIR_MEMORY = table(
    "repair", "what a node remembers of repairs", "node_id",
    ("node_id", BIGINT, "the node"),
    ("role", STRING, "broker or client"),
    ("memory", STRING, "JSON: whom it asked, who declined, whether it is level with its parent, votes, ..."),
)  # fmt: skip
DELIVERED = table(
    "delivered", "a delivery at a client, in order", "node_id,position",
    ("node_id", BIGINT, "the client"),
    ("position", BIGINT, "ascending in the order of deliveries"),
    *_MESSAGE,
)  # fmt: skip
