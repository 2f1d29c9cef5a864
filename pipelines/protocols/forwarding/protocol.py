"""Protocol ``forwarding``: one round of plain reverse-path subscription forwarding (report, sections 2 and 3).

A node stores for each subscription the neighbour it came from, and passes it on to the others; a publication follows
the stored neighbours back. Nothing is confirmed, so a publication that meets a node before a subscription does is
lost for it, although an earlier one may have been delivered (Figure 1).
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import DataFrame, types as T

from pipelines.contract.assumptions import Assumption
from pipelines.contract.entries import EntryChanges, remaining_entries, seen_entries
from pipelines.contract.round import CALL_TRIGGER, Round, RoundResult, Start, State
from pipelines.tables import BIGINT, INT, LONGS, table

_KEY = ["run_id", "node_id", "source", "source_seq"]
_BODY = ["hops", "issued_round", "subscription_id", "matches"]
_ROUTED = ("SUB", "UNSUB", "subscribe", "unsubscribe")
BOUND = """
select run_id, min(round) as round, 'a node crashed' as reason
from fault_event
where kind = 'crash'
group by run_id
"""
"""Runs in which any node crashed: nothing is sent again, and routing tables are lost with their node."""
_CALL_KIND = "case kind when 'publish' then 'PUB' when 'subscribe' then 'SUB' else 'UNSUB' end"

SUBSCRIPTION = table(
    "subscription", "an entry of a broker's routing table", "node_id,subscription_id",
    ("node_id", BIGINT, "the broker"),
    ("subscription_id", BIGINT, "the subscription"),
    ("via", BIGINT, "neighbour it came from; the broker itself for its own subscription"),
)  # fmt: skip


def handled(inbox: DataFrame, calls: DataFrame | None) -> DataFrame:
    """Gives what nodes handle in a round, calls last: KEY, ``kind, trigger, sender, round`` and the payload."""
    received = inbox.selectExpr(
        "run_id", "dst as node_id", "source", "source_seq", "kind", "message_id as trigger", "src as sender",
        "due_round as round", *_BODY,
    )  # fmt: skip
    if calls is None:
        return received
    issued = calls.selectExpr(
        "run_id", "node_id", "node_id as source", "source_seq", f"{_CALL_KIND} as kind", f"{CALL_TRIGGER} as trigger",
        "cast(null as bigint) as sender", "round", "0 as hops", "round as issued_round", "subscription_id", "matches",
    )  # fmt: skip
    return received.unionByName(issued)


def changed_entries(message: DataFrame) -> EntryChanges:
    """SUB adds an entry with its sender, UNSUB removes it."""
    added = message.where("kind = 'SUB'").selectExpr(
        "run_id", "node_id", "subscription_id", "coalesce(sender, node_id) as via", "trigger"
    )
    removed = message.where("kind = 'UNSUB'").selectExpr("run_id", "node_id", "subscription_id", "trigger as gone")
    return EntryChanges(added, removed)


def flooded(message: DataFrame, link: DataFrame) -> DataFrame:
    """SUB and UNSUB go to every neighbour but the sender: KEY, ``via``."""
    return (
        link.selectExpr("run_id", "src as node_id", "dst as via")
        .join(message.where("kind <> 'PUB'").select(*_KEY, "sender").hint("shuffle_hash"), ["run_id", "node_id"])
        .where("sender is null or via <> sender")
        .select(*_KEY, "via")
    )


def matched(message: DataFrame, entry: DataFrame, changes: EntryChanges | None) -> DataFrame:
    """PUB goes to the neighbours that matching entries name, never back: KEY, ``via``, once each.

    Args:
        message: What the nodes handle.
        entry: The entries before the round.
        changes: How they change in the round, if they do.
    """
    wanted = message.where("kind = 'PUB'").selectExpr(*_KEY, "trigger", "sender", "explode(matches) as subscription_id")
    return seen_entries(wanted, entry, changes).where("sender is null or via <> sender").select(*_KEY, "via").distinct()


def sent(message: DataFrame, out: DataFrame) -> DataFrame:
    """Gives the outbox: one message for each neighbour in ``out``."""
    return message.join(out.where("via <> node_id").hint("shuffle_hash"), _KEY).selectExpr(
        "run_id", "trigger", "cast(0 as bigint) as rank", "kind", "node_id as src", "via as dst", "round as sent_round",
        "source", "source_seq", "hops + 1 as hops", "issued_round", "subscription_id", "matches",
        "cast(null as bigint) as latency_rounds",
    )  # fmt: skip


def delivered(message: DataFrame, out: DataFrame) -> DataFrame:
    """Gives the deliveries: publications that match an entry of the node itself."""
    own = out.where("via = node_id").select(_KEY)
    return message.join(own.hint("shuffle_hash"), _KEY).selectExpr(
        "run_id", "node_id as subscriber", "source", "source_seq", "round", "round - issued_round as latency_rounds",
        "cast(hops as bigint) as hops",
    )  # fmt: skip


class ForwardingProtocol:
    """The protocol as the engine sees it."""

    kinds = ("SUB", "UNSUB", "PUB")
    payload = T.StructType(
        [
            T.StructField("hops", INT),
            T.StructField("issued_round", BIGINT),
            T.StructField("subscription_id", BIGINT),
            T.StructField("matches", LONGS),
        ]
    )
    body = """case when kind = 'PUB' then to_json(named_struct('hops', hops))
        else to_json(named_struct('hops', hops, 'subscription_id', subscription_id)) end"""
    states = (State(SUBSCRIPTION),)
    audits = ()
    bound = BOUND
    assumes: frozenset[Assumption] = frozenset({"no_loss", "no_duplicates", "order"})

    def start(self, start: Start) -> dict[str, DataFrame]:
        """Nothing is known before the first subscription."""
        return {}

    def round(self, due: Round) -> RoundResult:
        """Makes one round: SUB and UNSUB change the tables, PUB sees them as they are when its turn comes."""
        result = RoundResult()
        message = due.keep("message", handled(due.inbox, due.calls))
        entry, changes, out = due.state["subscription"], None, []
        if not due.kinds.isdisjoint(_ROUTED):
            changes = changed_entries(message)
            result.state["subscription"] = remaining_entries(entry, changes)
            out.append(flooded(message, due.fixed["link"]))
        if not due.kinds.isdisjoint(("PUB", "publish")):
            found = due.keep("matched", matched(message, entry, changes))
            result.delivery = delivered(message, found)
            out.append(found)
        if out:
            result.outbox = sent(message, reduce(DataFrame.unionByName, out))
        if due.calls is not None:
            result.call_event = due.calls.selectExpr(
                "run_id", "node_id as source", "source_seq", "round", "'issued' as event"
            )
        return result


PROTOCOL = ForwardingProtocol()
