"""What nodes keep between rounds; each declaration is a table of the store.

Brokers and clients are nodes of one program. Where no broker of a run crashes or joins, the tree is never mended:
buffers, and what is remembered of repairs, stay empty there.
"""

from __future__ import annotations

from udfs.ginger import records as rows, repair_records as repairs
from udfs.nodes.program import NodeProgram, appended, keyed, one, ordered


class State(NodeProgram):
    """The tables of a node; contacts are what a broker knows that comes back."""

    neighbour = keyed(rows.Neighbour)
    tree_view = keyed(rows.TreeView)
    contact = keyed(rows.Contact, is_durable=True)
    client_topic = keyed(rows.ClientTopic)
    subscribe = keyed(rows.Subscribe)
    subscriber = keyed(rows.Subscriber)
    member = keyed(rows.Member)
    pending = keyed(rows.Pending)
    entry_queue = keyed(rows.EntryQueue)
    metadata_buffer = keyed(rows.BufferedEvent)
    discarded = keyed(rows.Discarded)
    delivered = appended(rows.Delivered)
    repair = one(repairs.Repair)
    election = one(repairs.Election)
    awaited = keyed(repairs.Awaited)
    failed = keyed(repairs.Failed)
    hold = ordered(repairs.Hold)
    client_subscription = keyed(repairs.ClientSubscription)
    parked = keyed(repairs.Parked)
    gap = keyed(repairs.Gap)
    exception = keyed(repairs.Exceptional)
    topic_join = keyed(repairs.TopicJoin)
    entrant = ordered(repairs.Entrant)
    postponed = ordered(repairs.Postponed)
    receipt = keyed(repairs.Receipt)
    reported = keyed(repairs.Reported)
