"""The messages of protocol ``delta``: payload, body, and the columns of outbox rows.

Message kinds are named as in the report. DETECT is a report of a node's own failure detector. PAR_TOP and PAR_SUB
answer a JOIN_REQUEST if they have a ``source_seq``, else a SYN_REQUEST.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, types as T

from pipelines.contract.round import in_flight_schema, outbox_types
from pipelines.contract.rows import outbox
from pipelines.tables import BIGINT, BOOLEAN, LONGS, STRING

MULTICAST = ("J", "SUB", "UNSUB", "PUB", "REJOIN")


def _array(**fields: T.DataType) -> T.ArrayType:
    return T.ArrayType(T.StructType([T.StructField(name, kind) for name, kind in fields.items()]))


_FIELDS = {
    "hops": BIGINT, "issued_round": BIGINT, "subscription_id": BIGINT, "origin": BIGINT, "join_point": BIGINT,
    "matches": LONGS, "links": _array(a=BIGINT, b=BIGINT, is_marked=BOOLEAN),
    "entries": _array(subscription_id=BIGINT, origin=BIGINT, distance=BIGINT), "peer": BIGINT, "status": STRING,
    "incarnation": BIGINT, "for_incarnation": BIGINT, "guide": _array(path=LONGS, is_done=BOOLEAN),
    "origin_path": LONGS, "tombstones": LONGS, "visited": _array(node=BIGINT, msg_id=BIGINT),
}  # fmt: skip
GUIDE = _FIELDS["guide"].simpleString()
"""The SQL type of g.to: the paths from the receiver to recipients. ``is_done`` of a path states that its recipient has
confirmed.
"""
PAYLOAD = T.StructType([T.StructField(name, kind) for name, kind in _FIELDS.items()])
"""The fields of a message that its JSON body omits:

- ``for_incarnation``: the receiver's incarnation as the sender knows it; null: any incarnation, or the first one;
- ``guide``: g.to of a Guided message; null: the message is not Guided;
- ``origin_path``: the path from the receiver to m.from; null: the message is not Guided.
"""
INBOX = in_flight_schema(PAYLOAD).names
"""The columns of an inbox."""
BODY = """case kind
  when 'PUB' then to_json(named_struct('hops', hops, 'guide', guide))
  when 'J' then to_json(named_struct('hops', hops, 'join_point', join_point, 'guide', guide))
  when 'REJOIN' then to_json(named_struct('hops', hops, 'guide', guide))
  when 'SUB' then to_json(named_struct(
    'hops', hops, 'subscription_id', subscription_id, 'from', origin, 'guide', guide))
  when 'UNSUB' then to_json(named_struct(
    'hops', hops, 'subscription_id', subscription_id, 'from', origin, 'guide', guide))
  when 'PAR_TOP' then to_json(named_struct('links', links))
  when 'PAR_SUB' then to_json(named_struct('entries', entries, 'tombstones', tombstones))
  when 'SYN_REQUEST' then to_json(named_struct('incarnation', incarnation, 'links', links))
  when 'CON_REQUEST' then to_json(named_struct('incarnation', incarnation))
  when 'STATUS' then to_json(named_struct('status', status, 'incarnation', incarnation))
  when 'DETECT' then to_json(named_struct('peer', peer, 'incarnation', incarnation))
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
    """Returns `rows` as messages to send, with the columns `SENT_AS`; `columns` as in `contract.rows.outbox`."""
    return outbox(rows, _SENT, **columns)
