"""State of protocol ``delta``: which rows each node N holds, named as in the report."""

from __future__ import annotations

from pyspark.sql import DataFrame

from pipelines.contract.round import StateRelation
from pipelines.protocols.delta.messages import VISITED
from pipelines.tables import BIGINT, BOOLEAN, INT, LONGS, STRING, table


def newest_per_source(increments: DataFrame) -> DataFrame:
    """Folds a detector's increments: the most recent identifier per node and source."""
    return increments.groupBy("run_id", "node_id", "source").agg({"last_seq": "max"}).toDF(*DETECTOR.columns)


TOPOLOGY = table(
    "topology",
    "a link in a node's view TOP_N",
    "node_id,a,b",
    ("node_id", BIGINT, "the node N whose view it is"),
    ("a", BIGINT, "the link's lower end"),
    ("b", BIGINT, "the link's higher end"),
    ("is_marked", BOOLEAN, "whether the join that makes the link is still under way"),
)
PATH = table(
    "path",
    "a node in a node's view, with the path to it",
    "node_id,target",
    ("node_id", BIGINT, "the node N"),
    ("target", BIGINT, "the node X"),
    ("distance", INT, "d(N, X), links of the view, at most δ+1"),
    ("path", LONGS, "P(N, X), from N to X"),
    (
        "responsible",
        BIGINT,
        "first node of the path, N left out, that N does not suspect; N itself where X is N",
    ),
)
ROUTING_ENTRY = table(
    "routing_entry",
    "an entry of a node's SUBS_SET_N",
    "node_id,subscription_id",
    ("node_id", BIGINT, "the node N"),
    ("subscription_id", BIGINT, "the subscription"),
    ("origin", BIGINT, "its from at N: the subscriber, or the node δ+1 hops from N towards it"),
    ("distance", INT, "d(N, origin)"),
    ("first_hop", BIGINT, "first hop of P(N, origin); N itself for its own subscription"),
    ("responsible", BIGINT, "the node of P(N, origin) that N sends to, as in relation path"),
)
PROCESSING = table(
    "processing", "a recipient of a message in a node's ProcessingList_N, with who is responsible for it",
    "node_id,source,source_seq,recipient",
    ("node_id", BIGINT, "the node N"),
    ("source", BIGINT, "source of the multicast message m"),
    ("source_seq", BIGINT, "its number at the source"),
    ("kind", STRING, "J, SUB, UNSUB or PUB"),
    ("round", BIGINT, "MsgId_N, first part: round of the first copy"),
    ("trigger", BIGINT, "MsgId_N, second part: order within the round"),
    ("sender", BIGINT, "who sent the first copy; null at the source"),
    ("hops", INT, "links from the source to N"),
    ("subscription_id", BIGINT, "SUB, UNSUB: the subscription"),
    ("origin", BIGINT, "SUB, UNSUB: m.from at N"),
    ("join_point", BIGINT, "J: the join point M; the joining node is the source"),
    ("issued_round", BIGINT, "PUB: round in which it was issued"),
    ("matches", LONGS, "PUB: subscriptions whose predicate it satisfies, where it may have to be sent again"),
    ("origin_path", LONGS, "SUB, UNSUB accepted as Guided: P(N, m.from)"),
    ("msg_id", BIGINT, "MsgId_N, where duplicates are told by visited lists"),
    ("visited", VISITED, "m.visited as it was received, where duplicates are told by it"),
    ("recipient", BIGINT, "a member of Γ_N^m other than N"),
    ("path", LONGS, "P(N, recipient) where the message was accepted as Guided"),
    ("responsible", BIGINT, "the member of Out_N^m that is responsible for the recipient; null: none is left"),
    ("is_confirmed", BOOLEAN, "whether that member has confirmed"),
    ("is_reopened", BOOLEAN, "whether it had, and only an incarnation of the recipient itself lacks the message"),
)  # fmt: skip
WAITING = table(
    "waiting",
    "a sender of a duplicate that waits for its confirmation",
    "node_id,source,source_seq,sender",
    ("node_id", BIGINT, "the node N"),
    ("source", BIGINT, "source of the multicast message m"),
    ("source_seq", BIGINT, "its number at the source"),
    ("sender", BIGINT, "a member of Sender_N^m beside the first copy's"),
)
DETECTOR = table(
    "detector",
    "a source that a node heard of (nts_obj_N)",
    "node_id,source",
    ("node_id", BIGINT, "the node N"),
    ("source", BIGINT, "the source"),
    ("last_seq", BIGINT, "identifier of the most recent message from it"),
)
JOIN = table(
    "join",
    "a node that joins, or has joined, during the run",
    "node_id",
    ("node_id", BIGINT, "the node"),
    ("join_point", BIGINT, "where it joins"),
    ("source_seq", BIGINT, "number of its join call"),
    ("is_asked", BOOLEAN, "whether it has sent its JoinRequest; kept where nodes may crash"),
    ("status", STRING, "DETACHED, ATTACHED, CONFIRMED (its J is, not all it asked have answered) or VALID_JOINED"),
)
JOIN_REQUEST = table(
    "join_request",
    "a JoinRequest that waits until its join point is VALID_JOINED",
    "node_id,joiner",
    ("node_id", BIGINT, "the join point M"),
    ("joiner", BIGINT, "the node that asked"),
    ("source_seq", BIGINT, "number of its join call"),
    ("incarnation", BIGINT, "its incarnation then"),
)
CALL = table(
    "call",
    "an application call that waits until its node is VALID_JOINED",
    "node_id,source_seq",
    ("node_id", BIGINT, "the node"),
    ("source_seq", BIGINT, "number of the call at its node"),
    ("kind", STRING, "subscribe, unsubscribe or publish"),
    ("subscription_id", BIGINT, "subscribe, unsubscribe: the subscription"),
    ("matches", LONGS, "publish: subscriptions whose predicate it satisfies"),
)
PEER = table(
    "peer",
    "what a node knows of another one that faults made differ from a neighbour that is up",
    "node_id,peer",
    ("node_id", BIGINT, "the node N"),
    ("peer", BIGINT, "the other node X"),
    ("status", STRING, "WAITING until X answers, OPERATIONAL, RECOVERING, FAILED; a neighbour without a row is up"),
    ("incarnation", BIGINT, "incarnation of X that N is connected to, or that failed; null until X answers"),
    ("latency_rounds", BIGINT, "latency of the connection"),
)
STATUS = table(
    "status",
    "a node that recovers, or has recovered, after a crash",
    "node_id",
    ("node_id", BIGINT, "the node"),
    ("status", STRING, "RECOVERING, REJOINING (until its REJOIN is confirmed), OPERATIONAL"),
    ("incarnation", BIGINT, "how often it recovered"),
)
SYNCH = table(
    "synch",
    "a synchronisation point of a node (Synch_R)",
    "node_id,peer",
    ("node_id", BIGINT, "the node R that asked"),
    ("peer", BIGINT, "the node that is to answer"),
    ("is_answered", BOOLEAN, "whether its routing information has come"),
)
SYN_REQUEST = table(
    "syn_request",
    "a SynRequest whose routing information is still to be sent",
    "node_id,peer",
    ("node_id", BIGINT, "the synchronisation point"),
    ("peer", BIGINT, "the node that asked"),
)
TOMBSTONE = table(
    "tombstone",
    "a subscription that ended before a node had its entry, or may come again",
    "node_id,subscription_id",
    ("node_id", BIGINT, "the node"),
    ("subscription_id", BIGINT, "the subscription"),
)
OWN_SUBSCRIPTION = table(
    "own_subscription",
    "a confirmed subscription as its subscriber keeps it over crashes",
    "node_id,subscription_id",
    ("node_id", BIGINT, "the subscriber"),
    ("subscription_id", BIGINT, "the subscription"),
)
DELIVERED = table(
    "delivered",
    "a source of which a subscriber has delivered publications",
    "node_id,source",
    ("node_id", BIGINT, "the subscriber"),
    ("source", BIGINT, "the source"),
    ("last_seq", BIGINT, "number of the last publication delivered"),
)
STATES = (
    StateRelation(TOPOLOGY, is_durable=True),
    StateRelation(PATH),
    StateRelation(ROUTING_ENTRY),
    StateRelation(PROCESSING, facts={"routing": "kind <> 'PUB'", "joining": "kind = 'J'"}),
    StateRelation(WAITING, facts={"waiting": "true"}),
    StateRelation(DETECTOR, compact=newest_per_source),
    StateRelation(JOIN, facts={"detached": "status <> 'VALID_JOINED'", "joiners": "true"}, is_durable=True),
    StateRelation(JOIN_REQUEST, facts={"requests": "true"}),
    StateRelation(CALL, facts={"calls": "true"}),
    StateRelation(PEER, facts={"peers": "true"}),
    StateRelation(STATUS, facts={"returned": "true", "recovering": "status <> 'OPERATIONAL'"}),
    StateRelation(SYNCH, facts={"synchs": "not is_answered"}),
    StateRelation(SYN_REQUEST, facts={"syn_requests": "true"}),
    StateRelation(TOMBSTONE, facts={"tombstones": "true"}),
    StateRelation(OWN_SUBSCRIPTION, is_durable=True),
    StateRelation(DELIVERED, compact=newest_per_source, is_durable=True),
)
