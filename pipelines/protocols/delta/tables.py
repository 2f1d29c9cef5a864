"""State and messages of protocol ``delta``: which rows each node N holds, named as in the report."""

from __future__ import annotations

from pyspark.sql import DataFrame, types as T

from pipelines.contract import State
from pipelines.tables import BIGINT, BOOLEAN, INT, LONGS, STRING, table

KINDS = ("JOIN_REQUEST", "PAR_TOP", "PAR_SUB", "J", "SUB", "UNSUB", "PUB", "CONF")
MULTICAST = ("J", "SUB", "UNSUB", "PUB")

_LINKS = T.ArrayType(T.StructType([T.StructField("a", BIGINT), T.StructField("b", BIGINT)]))
_ENTRIES = T.ArrayType(T.StructType([T.StructField("subscription_id", BIGINT), T.StructField("origin", BIGINT)]))

PAYLOAD = T.StructType(
    [
        T.StructField("hops", INT),
        T.StructField("issued_round", BIGINT),
        T.StructField("subscription_id", BIGINT),
        T.StructField("origin", BIGINT),
        T.StructField("join_point", BIGINT),
        T.StructField("matches", LONGS),
        T.StructField("links", _LINKS),
        T.StructField("entries", _ENTRIES),
    ]
)

BODY = """case kind
  when 'PUB' then to_json(named_struct('hops', hops))
  when 'J' then to_json(named_struct('hops', hops, 'join_point', join_point))
  when 'SUB' then to_json(named_struct('hops', hops, 'subscription_id', subscription_id, 'from', origin))
  when 'UNSUB' then to_json(named_struct('hops', hops, 'subscription_id', subscription_id, 'from', origin))
  when 'PAR_TOP' then to_json(named_struct('links', links))
  when 'PAR_SUB' then to_json(named_struct('entries', entries))
end"""


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
    ("via", BIGINT, "first hop of the path; N itself where X is N"),
)
SUBSCRIPTION = table(
    "subscription",
    "an entry of a node's SUBS_SET_N",
    "node_id,subscription_id",
    ("node_id", BIGINT, "the node N"),
    ("subscription_id", BIGINT, "the subscription"),
    ("origin", BIGINT, "its from at N: the subscriber, or the node δ+1 hops from N towards it"),
    ("via", BIGINT, "first hop of P(N, origin); N itself for its own subscription"),
)
PROCESSING = table(
    "processing", "a recipient still to be confirmed of a message in a node's ProcessingList_N",
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
    ("recipient", BIGINT, "a member of Γ_N^m other than N"),
    ("via", BIGINT, "the member of Out_N^m that is responsible for the recipient"),
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
    "a node that joins or has joined while the run goes on",
    "node_id",
    ("node_id", BIGINT, "the node"),
    ("join_point", BIGINT, "where it joins"),
    ("status", STRING, "DETACHED, ATTACHED or VALID_JOINED"),
)
JOIN_REQUEST = table(
    "join_request",
    "a JoinRequest that waits until its join point is VALID_JOINED",
    "node_id,joiner",
    ("node_id", BIGINT, "the join point M"),
    ("joiner", BIGINT, "the node that asked"),
    ("source_seq", BIGINT, "number of its join call"),
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

STATES = (
    State(TOPOLOGY),
    State(PATH),
    State(SUBSCRIPTION),
    State(PROCESSING, facts={"routing": "count_if(kind <> 'PUB')", "joining": "count_if(kind = 'J')"}),
    State(WAITING, facts={"waiting": "count(1)"}),
    State(DETECTOR, compact=newest_per_source),
    State(JOIN, facts={"detached": "count_if(status <> 'VALID_JOINED')"}),
    State(JOIN_REQUEST, facts={"requests": "count(1)"}),
    State(CALL, facts={"calls": "count(1)"}),
)
