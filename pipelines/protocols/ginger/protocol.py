"""Protocol ``ginger``: one round.

1. **Subscribe** (section 3.4): subscriptions flood the tree, answers come back; `subscribe`.
2. **Publish, Metadata, TotalAck, TotalProcessed** (section 3.5): every node that has any handles them in the order of
   their links, calls last; `handling`, and `udfs.ginger` for what a node does.
3. **Failures** (chapter 4), only where nodes may crash: neighbours of a crashed node hear of it after a delay; whatever
   mends the tree is messages, which the nodes handle among the others.

Whether a total-order message is pending where a Subscribe comes is no question: `check` has publications wait until the
subscriptions of their topic are confirmed.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import DataFrame

from pipelines.contract.assumptions import Assumption
from pipelines.contract.round import Round, RoundResult, Start
from pipelines.protocols.ginger import handling, parts, subscribe
from pipelines.protocols.ginger.audits import AUDITS
from pipelines.protocols.ginger.parts import STATES
from pipelines.protocols.ginger.tables import BODY, HANDLED, KINDS, NEIGHBOUR, PART, PAYLOAD, REPAIR, SUBSCRIBE
from pipelines.protocols.ginger.tree import client_topics, contacts, neighbours, seen, tree_views

_EVENT = "run_id", "source", "source_seq", "round", "event"
BOUND = """
select run_id, min(round) as round, min(reason) as reason from (
  select run_id, round, case status when 'ISOLATED' then 'a node found nobody in its view to take it in'
    else 'a message left all buffers, and its publisher was not reached' end as reason
  from node_status
  where status in ('ISOLATED', 'MESSAGE_LOST')
  union all
  select f.run_id, f.round, 'a node crashed before all subscriptions were confirmed' as reason
  from fault_event f
  join subscription s on s.run_id = f.run_id
  where f.kind = 'crash' and coalesce(s.confirmed_round > f.round, true)
) beyond
group by run_id
"""
"""Failures within the views are borne; before the sub-trees stand there is nothing to mend."""


class GingerProtocol:
    """The protocol as the engine sees it."""

    kinds = KINDS
    payload = PAYLOAD
    body = BODY
    states = STATES
    audits = AUDITS
    bound = BOUND
    assumes: frozenset[Assumption] = frozenset({"no_loss"})

    def start(self, start: Start) -> dict[str, DataFrame]:
        """The tree stands, but for brokers that join later, and nobody has subscribed."""
        node, link = start.fixed["node"], start.fixed["link"]
        joining = start.calls.where("kind = 'join'").select("run_id", "node_id", "join_point")
        there = node.join(joining, ["run_id", "node_id"], "left_anti")
        tree = seen(there, link, start.fixed["setting"])
        of_nodes = [
            parts.neighbour_parts(neighbours(tree)), parts.tree_view_parts(tree_views(tree)),
            parts.client_topic_parts(client_topics(start.calls)),
        ]  # fmt: skip
        return {"part": reduce(DataFrame.unionByName, of_nodes), "contact": contacts(node, link, joining)}

    def round(self, due: Round) -> RoundResult:
        """Makes one round, the steps of which the module text numbers."""
        result = RoundResult()
        outbox: list[DataFrame] = []
        events: list[DataFrame] = []
        if due.calls is not None:
            events.append(
                due.calls.selectExpr("run_id", "node_id as source", "source_seq", "round", "'issued' as event")
            )
        if not due.kinds.isdisjoint(("subscribe", "Subscribe", "Subscribed")):
            outbox += _subscribe(due, result)
            events += [subscribe.confirmed(due.inbox)] if "Subscribed" in due.kinds else []
        if not due.kinds.isdisjoint(HANDLED) or due.crashes.recovered is not None:
            outbox += _handle(due, result, events)
        if due.crashes.crashed is not None:
            neighbour, setting = parts.shown(NEIGHBOUR, due.state["part"]), due.fixed["setting"]
            outbox.append(handling.detections(due.crashes.crashed, neighbour, setting))
        if outbox:
            result.outbox = reduce(DataFrame.unionByName, outbox)
        if events:
            result.call_event = reduce(DataFrame.unionByName, [event.select(*_EVENT) for event in events])
        return result


def _subscribe(due: Round, result: RoundResult) -> list[DataFrame]:
    """Step 1: gives the outbox in parts."""
    neighbour, out = parts.shown(NEIGHBOUR, due.state["part"]), []
    if due.calls is not None and "subscribe" in due.kinds:
        out.append(subscribe.issued(due.calls, neighbour))
    known = due.state["subscribe"].selectExpr("*", "cast(null as bigint) as trigger", "cast(null as bigint) as round")
    if "Subscribe" in due.kinds:
        out.append(subscribe.forwarded(subscribe.onward(due.inbox, neighbour), due.fixed["setting"]))
        known = due.keep("subscribe_noted", known.unionByName(subscribe.noted(due.inbox, neighbour)))
    if "Subscribed" in due.kinds:
        known = due.keep("subscribe_answered", subscribe.answered(known, due.inbox))
    if not due.kinds.isdisjoint(("Subscribe", "Subscribed")):
        out.append(subscribe.confirmations(known))
        result.state["subscribe"] = known.select(SUBSCRIBE.columns)
    if "Subscribe" in due.kinds:
        result.state["part"] = due.keep("part_subscribed", _with_sub_trees(due, known))
    return out


def _with_sub_trees(due: Round, known: DataFrame) -> DataFrame:
    """The parts, with the sub-trees of the runs in which Subscribe messages came; elsewhere they may be mended."""
    run = due.inbox.where("kind = 'Subscribe'").selectExpr("run_id", "true as has_changed").distinct()
    of_runs = known.join(run.hint("shuffle_hash"), "run_id")
    subscriber = due.keep("subscriber", subscribe.subscribers(of_runs))
    flagged = due.state["part"].join(run.hint("shuffle_hash"), "run_id", "left")
    others = flagged.where("has_changed is null or relation not in ('subscriber', 'member')").select(PART.columns)
    changed = parts.subscriber_parts(subscriber), parts.member_parts(subscribe.members(of_runs, subscriber))
    return reduce(DataFrame.unionByName, changed, others)


def _inbox(due: Round) -> DataFrame:
    """Whatever nodes have to handle."""
    items = [handling.inbox_items(due.inbox)]
    if due.calls is not None and "publish" in due.kinds:
        items.append(handling.call_items(due.calls))
    if due.calls is not None and "join" in due.kinds:
        items.append(handling.join_items(due.state["contact"], _who(due.calls.where("kind = 'join'")), "JOINING"))
    if due.crashes.recovered is not None:
        items.append(handling.join_items(due.state["contact"], _who(due.crashes.recovered), "RECOVERING"))
    return reduce(DataFrame.unionByName, items)


def _who(frame: DataFrame) -> DataFrame:
    return frame.select("run_id", "node_id", "round")


def _told_whether_mended(due: Round, inbox: DataFrame) -> DataFrame:
    """Tells in ``is_mended`` whether the tree of a run may be mended: a node crashes or joins at some time."""
    may_join = due.facts["n_joining"] > 0
    if (due.may_crash and due.crashing is None) or not (due.may_crash or may_join):
        return inbox.selectExpr("*", f"{str(due.may_crash).lower()} as is_mended")
    runs = [due.crashing] if due.crashing is not None else []
    runs += [due.state["contact"].where("is_joining").select("run_id")] if may_join else []
    run = reduce(DataFrame.unionByName, runs).distinct().selectExpr("run_id", "true as is_mended")
    return inbox.join(run.hint("shuffle_hash"), "run_id", "left").na.fill(False, ["is_mended"])


def _handle(due: Round, result: RoundResult, events: list[DataFrame]) -> list[DataFrame]:
    """Step 2: gives the outbox in parts."""
    may_join = due.facts["n_joining"] > 0
    mends = due.may_crash or may_join
    got = due.keep("got", _told_whether_mended(due, _inbox(due)))
    touched = got.select("run_id", "node_id", "is_mended").distinct()
    part = result.state.get("part", due.state["part"])
    state = [handling.known(part, touched)]
    if mends:
        state += handling.memory(due.state["metadata_buffer"], touched, due.fixed["setting"])
    rows = due.keep("rows", handling.handled(got, state))
    result.state["part"] = handling.parts_after(rows, part, touched)
    result.state["delivered"] = handling.delivered(rows)
    if mends:
        result.state["metadata_buffer"] = handling.buffered(rows)
    if not due.kinds.isdisjoint((*REPAIR, "join")) or due.crashes.recovered is not None:
        result.node_status = handling.statuses(rows)
        events += [handling.joined(rows)] if may_join else []
    result.delivery = handling.deliveries(rows)
    if due.crashes.down is None:
        return [handling.sent(rows)]
    return [handling.sent(rows), handling.failed_connections(rows, due.crashes.down, due.fixed["setting"])]


PROTOCOL = GingerProtocol()
