"""The dataflow steps of protocol ``forwarding``: reverse-path subscription forwarding (report, sections 2 and 3).

A broker floods its subscriptions. Each broker stores for each subscription the neighbour that sent it. A publication
follows these neighbours back to the subscribers. No message is confirmed. A publication that arrives at a broker before
the subscription is not delivered, although an earlier publication may have been delivered (Figure 1).
"""

from __future__ import annotations

from pyspark.sql import DataFrame, types as T

from pipelines.contract.nodes import record_table
from pipelines.contract.round import DataflowForm, Round, RoundResult, StateRelation
from pipelines.contract.rows import (
    KEY,
    NODE,
    EntryChanges,
    called,
    deliveries,
    issued,
    outbox,
    received,
    remaining_entries,
    seen_entries,
)
from pipelines.engines.frames import union
from pipelines.tables import BIGINT, LONGS
from udfs.forwarding import RoutingEntry

COPY = [*KEY, "trigger"]
"""The key of a copy of a message at a node. The message alone is no key, because a link may deliver several copies."""
_CALLS = {"publish": "PUB", "subscribe": "SUB", "unsubscribe": "UNSUB"}
_FIELDS = {"hops": BIGINT, "issued_round": BIGINT, "subscription_id": BIGINT, "matches": LONGS}
PAYLOAD = T.StructType([T.StructField(name, kind) for name, kind in _FIELDS.items()])
ROUTING_ENTRY = record_table("routing_entry", RoutingEntry)


def handled_rows(inbox: DataFrame, calls: DataFrame | None) -> DataFrame:
    """Returns the messages and calls that nodes handle in a round, with their payload. Calls follow the messages."""
    came = received(inbox, *PAYLOAD.names)
    if calls is None:
        return came
    own = {"hops": "0", "issued_round": "round", "subscription_id": "subscription_id", "matches": "matches"}
    return came.unionByName(called(calls, _CALLS, PAYLOAD, **own))


def entry_changes(message: DataFrame, *, may_end: bool) -> EntryChanges:
    """Returns the routing entries that SUB adds and UNSUB removes. Each tree link carries one SUB of a subscription.

    ``may_end`` states whether `message` may contain UNSUB.
    """
    next_hop = "coalesce(sender, node_id) as next_hop"
    ended = message.where("kind = 'UNSUB'").selectExpr(*NODE, "subscription_id", "trigger as removed_trigger")
    added = message.where("kind = 'SUB'").selectExpr(*NODE, "subscription_id", next_hop, "trigger")
    return EntryChanges(added, ended if may_end else None)


def flooded(message: DataFrame, link: DataFrame) -> DataFrame:
    """Returns the next hops of SUB and UNSUB: all neighbours except the sender. Columns: `COPY` and ``next_hop``."""
    routed = message.where("kind <> 'PUB'").selectExpr(*COPY, "sender").hint("shuffle_hash")
    neighbour = link.selectExpr("run_id", "src as node_id", "dst as next_hop")
    return neighbour.join(routed, NODE).where("sender is null or next_hop <> sender").selectExpr(*COPY, "next_hop")


def matched(message: DataFrame, entry: DataFrame, changes: EntryChanges | None) -> DataFrame:
    """Returns the next hops of PUB: the distinct next hops of matching entries, except the sender.

    Columns: `COPY` and ``next_hop``.
    """
    wanted = message.where("kind = 'PUB'").selectExpr(*COPY, "sender", "explode(matches) as subscription_id")
    return (
        seen_entries(wanted, entry, changes)
        .where("sender is null or next_hop <> sender")
        .selectExpr(*COPY, "next_hop")
        .distinct()
    )


class ForwardingProtocol(DataflowForm):
    """The steps of one round of protocol ``forwarding``."""

    payload = PAYLOAD
    body = """case when kind = 'PUB' then to_json(named_struct('hops', hops))
        else to_json(named_struct('hops', hops, 'subscription_id', subscription_id)) end"""
    states = (StateRelation(ROUTING_ENTRY),)

    def round(self, round_: Round) -> RoundResult:
        """Computes one round. A PUB uses the routing entries after all SUB and UNSUB with lower triggers."""
        kinds, result = round_.kinds, RoundResult()
        message = round_.keep("message", handled_rows(round_.inbox, round_.calls))
        entry, changes, out = round_.state["routing_entry"], None, []
        if not kinds.isdisjoint(("SUB", "UNSUB", "subscribe", "unsubscribe")):
            changes = entry_changes(message, may_end=not kinds.isdisjoint(("UNSUB", "unsubscribe")))
            if changes.removed is None:
                result.added["routing_entry"] = changes.added.drop("trigger")
            else:
                result.state["routing_entry"] = remaining_entries(entry, changes)
            out.append(flooded(message, round_.run.link))
        if not kinds.isdisjoint(("PUB", "publish")):
            out.append(round_.keep("matched", matched(message, entry, changes)))
            result.delivery = deliveries(message.join(out[-1].where("next_hop = node_id").selectExpr(*COPY), COPY))
        if out:
            to = union(out).where("next_hop <> node_id").hint("shuffle_hash")
            same = ("trigger", "kind", "source", "source_seq", "issued_round", "subscription_id", "matches")
            sent = {"src": "node_id", "dst": "next_hop", "sent_round": "round", "hops": "hops + 1"}
            result.outbox = outbox(message.join(to, COPY), PAYLOAD, **{name: name for name in same}, **sent)
        result.call_event = None if round_.calls is None else issued(round_.calls)
        return result


STEPS = ForwardingProtocol()
