"""The state relations of protocol ``delta`` in dataflow form, with the columns of the node program's records."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import DataFrame, types as T

from pipelines.contract.nodes import record_table
from pipelines.contract.round import StateRelation
from pipelines.tables import INT, Table
from udfs.delta import state
from udfs.delta.program import ProcessingRow


def newest_per_source(increments: DataFrame) -> DataFrame:
    """Returns the highest ``last_seq`` of each node and source in `increments`."""
    return increments.groupBy("run_id", "node_id", "source").agg({"last_seq": "max"}).toDF(*DETECTOR.columns)


_INTS = ("distance", "hops")
"""Columns that count links. Their SQL type is INT, the result type of array functions."""


def _table(name: str, record: type) -> Table:
    table = record_table(name, record)
    fields = [
        T.StructField(one.name, INT if one.name in _INTS else one.dataType, one.nullable, one.metadata)
        for one in table.schema
    ]
    return replace(table, schema=T.StructType(fields))


TOPOLOGY = _table("topology", state.ViewLink)
PATH = _table("path", state.Path)
ROUTING_ENTRY = _table("routing_entry", state.SubscriptionEntry)
PROCESSING = _table("processing", ProcessingRow)
WAITING = _table("waiting", state.Waiting)
DETECTOR = _table("detector", state.Detected)
JOIN = _table("join", state.JoinState)
JOIN_REQUEST = _table("join_request", state.JoinRequest)
CALL = _table("call", state.WaitingCall)
PEER = _table("peer", state.PeerState)
STATUS = _table("status", state.Status)
SYNCH = _table("synch", state.Synch)
SYN_REQUEST = _table("syn_request", state.SynRequested)
TOMBSTONE = _table("tombstone", state.Tombstone)
OWN_SUBSCRIPTION = _table("own_subscription", state.ConfirmedSubscription)
DELIVERED = _table("delivered", state.DeliveredSource)
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
