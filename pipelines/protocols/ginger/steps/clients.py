"""Clients publish and subscribe at their edge brokers, and deliver what these send (sections 3.3 and 3.4)."""

from __future__ import annotations

from pyspark.sql import DataFrame

from pipelines.contract.round import CALL_TRIGGER
from pipelines.contract.rows import NODE, outbox, row_number
from pipelines.protocols.ginger.steps.rows import PAYLOAD
from udfs.ginger.node import POSITIONS


def called_out(calls: DataFrame, neighbour: DataFrame) -> DataFrame:
    """Returns the messages that clients send for their calls: Subscribe and Metadata to the edge broker.

    Args:
        calls: The due calls.
        neighbour: Table neighbour.
    """
    edge = neighbour.where("relationship = 'edge'").selectExpr(*NODE, "neighbour as edge_broker")
    own = calls.where("kind in ('subscribe', 'publish')").hint("shuffle_hash")
    return outbox(
        edge.join(own, NODE), PAYLOAD, trigger=CALL_TRIGGER, src="node_id", dst="edge_broker", sent_round="round",
        kind="case kind when 'subscribe' then 'Subscribe' else 'Metadata' end", source="node_id",
        source_seq="source_seq", topic="topic", subscription_id="case kind when 'subscribe' then subscription_id end",
        guarantee="case kind when 'publish' then guarantee end",
        keys="case kind when 'publish' then coalesce(array_sort(keys), cast(array() as array<string>)) end",
        issued_round="case kind when 'publish' then round end", hops="case kind when 'publish' then 1 end",
        covered="case kind when 'publish' then array() end", directions="case kind when 'subscribe' then array() end",
        way="case kind when 'subscribe' then array() end",
    )  # fmt: skip


def delivered_copies(message: DataFrame) -> DataFrame:
    """Returns the messages that clients deliver, in the order in which they come: *message*."""
    return message.where("kind = 'Metadata' and relationship = 'edge'")


def delivery_rows(copies: DataFrame) -> DataFrame:
    """Returns the new rows of table delivered.

    Args:
        copies: See `delivered_copies`.
    """
    number = row_number("deliveries of a client", ", ".join(NODE), "trigger")
    position = f"round * {POSITIONS} + {number} as position"
    return copies.selectExpr(*NODE, position, "topic", "source", "source_seq")


def confirmations(message: DataFrame) -> DataFrame:
    """Returns the subscriptions that are confirmed: rows of ``call_event``."""
    own = message.where("kind = 'Subscribed' and relationship = 'edge'")
    return own.selectExpr("run_id", "node_id as source", "source_seq", "round", "'confirmed' as event")
