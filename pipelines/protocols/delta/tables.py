"""The state relations of protocol ``delta`` in dataflow form, with the columns of the node program's records."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, functions as F

from pipelines.contract.nodes import record_table
from pipelines.contract.round import StateRelation
from pipelines.contract.rows import NODE
from udfs.delta import state
from udfs.delta.program import ProcessingRow


def with_value(
    relation: DataFrame, row: DataFrame, column: str, value: str, key: Sequence[str] = tuple(NODE)
) -> DataFrame:  # fmt: skip
    """Returns `relation` with the SQL expression `value` in `column` of the rows whose `key` is in `row`."""
    found = row.select(*key).distinct().selectExpr(*key, "true as is_found")
    now = F.expr(f"case when is_found then {value} else {column} end")
    return relation.join(found, [*key], "left").withColumn(column, now).drop("is_found")


def newest_per_source(increments: DataFrame) -> DataFrame:
    """Returns the highest ``last_seq`` of each node and source in `increments`."""
    return increments.groupBy("run_id", "node_id", "source").agg({"last_seq": "max"}).toDF(*DETECTOR.columns)


TOPOLOGY = record_table("topology", state.ViewLink)
PATH = record_table("path", state.Path)
ROUTING_ENTRY = record_table("routing_entry", state.SubscriptionEntry)
PROCESSING = record_table("processing", ProcessingRow)
WAITING = record_table("waiting", state.Waiting)
DETECTOR = record_table("detector", state.Detected)
JOIN = record_table("join", state.JoinState)
JOIN_REQUEST = record_table("join_request", state.JoinRequest)
CALL = record_table("call", state.WaitingCall)
PEER = record_table("peer", state.PeerState)
STATUS = record_table("status", state.Status)
SYNCH = record_table("synch", state.Synch)
SYN_REQUEST = record_table("syn_request", state.SynRequested)
TOMBSTONE = record_table("tombstone", state.Tombstone)
OWN_SUBSCRIPTION = record_table("own_subscription", state.ConfirmedSubscription)
DELIVERED = record_table("delivered", state.DeliveredSource)
STATES = (
    StateRelation(TOPOLOGY, is_durable=True),
    StateRelation(PATH),
    StateRelation(ROUTING_ENTRY),
    StateRelation(PROCESSING, facts={"routing": "kind <> 'PUB'", "joining": "kind = 'J'"}),
    StateRelation(WAITING),
    StateRelation(DETECTOR, compact=newest_per_source),
    StateRelation(JOIN, facts={"detached": "status <> 'VALID_JOINED'", "joiners": "true"}, is_durable=True),
    StateRelation(JOIN_REQUEST, facts={"requests": "true"}),
    StateRelation(CALL, facts={"calls": "true"}),
    StateRelation(PEER, facts={"peers": "true"}),
    StateRelation(STATUS, facts={"returned": "true", "recovering": "status <> 'OPERATIONAL'"}),
    StateRelation(SYNCH, facts={"synchs": "not is_answered"}),
    StateRelation(SYN_REQUEST, facts={"syn_requests": "true"}),
    StateRelation(TOMBSTONE),
    StateRelation(OWN_SUBSCRIPTION, is_durable=True),
    StateRelation(DELIVERED, compact=newest_per_source, is_durable=True),
)
