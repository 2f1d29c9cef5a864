"""The state relations and messages of protocol ``delta`` in dataflow form.

Relations have the columns of the node program's records. Message kinds are named as in the report. DETECT is a report
of a node's own failure detector. PAR_TOP and PAR_SUB answer a JOIN_REQUEST if they have a ``source_seq``, else a
SYN_REQUEST.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, functions as F, types as T
from pyspark.sql.pandas.types import from_arrow_schema

from pipelines.contract.nodes import record_table
from pipelines.contract.round import StateRelation, in_flight_schema, outbox_types
from pipelines.contract.rows import NODE, outbox
from pipelines.tables import BIGINT
from udfs.delta import state
from udfs.delta.messages import MESSAGES
from udfs.delta.program import ProcessingRow
from udfs.nodes.records import spec_of


def with_value(
    relation: DataFrame, row: DataFrame, column: str, value: str, key: Sequence[str] = tuple(NODE)
) -> DataFrame:  # fmt: skip
    """Returns `relation` with the SQL expression `value` in `column` of the rows whose `key` is in `row`."""
    found = row.selectExpr(*key).distinct().selectExpr(*key, "true as is_found")
    now = F.expr(f"case when is_found then {value} else {column} end")
    return relation.join(found, [*key], "left").withColumn(column, now).drop("is_found")


def newest_per_source(rows: DataFrame) -> DataFrame:
    """Returns the highest ``last_seq`` of each node and source in `rows`."""
    return rows.groupBy("run_id", "node_id", "source").agg({"last_seq": "max"}).toDF(*DETECTOR.columns)


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
    StateRelation(PROCESSING, facts={"routing": "kind <> 'PUB'", "joining": "kind = 'J'", "ending": "kind = 'UNSUB'"}),
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

MULTICAST = ("J", "SUB", "UNSUB", "PUB", "REJOIN")


_TYPES = {name: kind.arrow for cls in MESSAGES for name, kind in spec_of(cls).types.items()}
_FIELDS = (
    "hops", "issued_round", "subscription_id", "origin", "join_point", "matches", "links", "entries", "peer", "status",
    "incarnation", "for_incarnation", "guide", "origin_path", "tombstones", "visited",
)  # fmt: skip
PAYLOAD = from_arrow_schema(pa.schema([(name, _TYPES["from_" if name == "origin" else name]) for name in _FIELDS]))
"""The fields of a message that its JSON body omits:

- ``for_incarnation``: the receiver's incarnation as the sender knows it; null: any incarnation, or the first one;
- ``guide``: g.to of a Guided message; null: the message is not Guided;
- ``origin_path``: the path from the receiver to m.from; null: the message is not Guided.
"""
GUIDE = PAYLOAD["guide"].dataType.simpleString()
"""The SQL type of g.to: the paths from the receiver to recipients. ``is_done`` of a path states that its recipient has
confirmed.
"""
INBOX = in_flight_schema(PAYLOAD).names
"""The columns of an inbox."""
BODY = """case kind
  when 'REJOIN' then to_json(named_struct('hops', hops, 'guide', guide))
  when 'PAR_TOP' then to_json(named_struct('links', links))
  when 'PAR_SUB' then to_json(named_struct('entries', entries, 'tombstones', tombstones))
  when 'SYN_REQUEST' then to_json(named_struct('incarnation', incarnation, 'links', links))
  when 'CON_REQUEST' then to_json(named_struct('incarnation', incarnation))
  when 'STATUS' then to_json(named_struct('status', status, 'incarnation', incarnation))
  when 'DETECT' then to_json(named_struct('peer', peer, 'incarnation', incarnation))
  else case when kind not in ('CONF', 'JOIN_REQUEST') then to_json(named_struct(
    'hops', hops, 'join_point', join_point, 'subscription_id', subscription_id, 'from', origin, 'guide', guide)) end
end"""

_SENT = T.StructType([*PAYLOAD, T.StructField("delay_rounds", BIGINT)])
SENT_AS = [*outbox_types(_SENT)]
"""The columns of messages to send. Column ``delay_rounds`` is a delay in addition to the latency of a connection."""
SENT = ("SUB", "UNSUB", "subscribe", "unsubscribe")
"""The kinds of messages and calls that may cause a node to send SUB or UNSUB."""
FAULT_TRIGGER = "cast(-4611686018427387904 as bigint)"
"""SQL for the trigger of failure reports, requests and STATUS. It sorts before all other triggers of the round."""
LINKS = "array_sort(collect_list(struct(a, b, is_marked))) as links"
"""SQL that aggregates rows of relation ``topology`` to field ``links`` of a request or PAR_TOP."""


def to_send(rows: DataFrame, **columns: str) -> DataFrame:
    """Returns `rows` as messages to send, with the columns `SENT_AS`; `columns` as in `contract.rows.outbox`.

    By default ``src`` is column ``node_id``, and ``sent_round`` is column ``round``.
    """
    return outbox(rows, _SENT, **{"src": "node_id", "sent_round": "round", **columns})
