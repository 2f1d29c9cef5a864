"""What messages carry, and the rows that the steps of a round share.

- *message*: a due message at its receiver: `contract.rows.received` with the columns of `PAYLOAD`, and
  ``relationship``, what its sender is to the receiver: parent, child or client; edge: the receiver is a client.
- *branch*: a neighbour in the sub-tree of a topic: ``run_id, node_id, topic, neighbour, relationship``.
- *turn*: something that a broker does with a message of a client: `TURN`.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import DataFrame, types as T

from pipelines.contract.rows import NODE, received
from pipelines.tables import BIGINT, LONGS, STRING

STRINGS = T.ArrayType(T.StringType())
_FIELDS = {
    "topic": STRING, "guarantee": STRING, "keys": STRINGS, "issued_round": BIGINT, "hops": BIGINT, "covered": LONGS,
    "subscription_id": BIGINT, "edge": BIGINT, "directions": STRINGS, "way": LONGS,
}  # fmt: skip
PAYLOAD = T.StructType([T.StructField(name, kind) for name, kind in _FIELDS.items()])
"""``directions``: of the steps of a Subscribe's path, the last first; their addresses are the last ones of ``way``."""
PATH = """transform(slice(sequence(1, size(directions) + 1), 1, size(directions)), i -> named_struct(
    'address', element_at(reverse(way), i), 'hop_count', i - 1, 'direction', element_at(directions, i)))"""
BODY = f"""case kind
    when 'Subscribe' then to_json(named_struct('topic', topic, 'subscription_id', subscription_id, 'edge', edge,
        'path', {PATH}, 'way', way))
    when 'Subscribed' then to_json(named_struct('subscription_id', subscription_id))
    when 'TotalProcessed' then to_json(named_struct('topic', topic, 'guarantee', guarantee, 'keys', keys,
        'issued_round', issued_round, 'hops', hops))
    else to_json(named_struct('topic', topic, 'guarantee', guarantee, 'keys', keys, 'issued_round', issued_round,
        'hops', hops, 'covered', covered)) end"""
TOPIC = [*NODE, "topic"]
ID = [*TOPIC, "source", "source_seq"]
"""What identifies a message of a client at a broker."""
ABOUT = [*ID, "guarantee", "keys", "issued_round"]
"""A message of a client at a broker."""
TURN = [*ABOUT, "hops", "sender", "came_from", "covered", "what", "trigger", "rank", "round"]
"""Grain: a broker, message and ``what``: passed, locked, sent or processed. ``sender``: who brought it; null: nobody.
``covered``: nodes that have locked its key items. ``rank``: position among the turns of the trigger, from 0."""
FROM_BROKER = "relationship in ('parent', 'child')"


def handled(inbox: DataFrame, neighbour: DataFrame) -> DataFrame:
    """Returns the due messages at their receivers: *message*."""
    came = received(inbox, *PAYLOAD.names).hint("shuffle_hash")
    near = neighbour.selectExpr("run_id", "node_id", "neighbour as sender", "relationship")
    return near.join(came, [*NODE, "sender"])


def branches(subscriber: DataFrame, neighbour: DataFrame, topics: DataFrame) -> DataFrame:
    """Returns the neighbours in the sub-trees of topics: *branch*.

    Args:
        subscriber: Table subscriber.
        neighbour: Table neighbour.
        topics: The brokers and topics that are meant: TOPIC.
    """
    inside = subscriber.select(*TOPIC, "neighbour").join(topics.distinct().hint("shuffle_hash"), TOPIC)
    return neighbour.select(*NODE, "neighbour", "relationship").join(
        inside.hint("shuffle_hash"), [*NODE, "neighbour"]
    ).select(*TOPIC, "neighbour", "relationship")  # fmt: skip


def united(frames: list[DataFrame]) -> DataFrame:
    """Returns the rows of all frames, which have equal columns."""
    return reduce(DataFrame.unionByName, frames)
