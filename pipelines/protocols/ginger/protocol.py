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

from pipelines.audits.assumptions import Assumption
from pipelines.contract import OUTBOX, Round, RoundResult, Start
from pipelines.protocols.ginger import handling, subscribe
from pipelines.protocols.ginger.audits import AUDITS
from pipelines.protocols.ginger.tables import BODY, HANDLED, KINDS, PAYLOAD, REPAIR, STATES, SUBSCRIBE
from pipelines.protocols.ginger.tree import client_topics, neighbours, seen, tree_views

_EVENT = "run_id", "source", "source_seq", "round", "event"
BOUND = """
select run_id, min(round) as round, min(reason) as reason from (
  select run_id, round, 'a node found nobody in its view to take it in' as reason
  from node_status
  where status = 'ISOLATED'
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
        """The tree stands, and nobody has subscribed."""
        tree = seen(start.fixed["node"], start.fixed["link"], start.fixed["setting"])
        topic = client_topics(start.calls)
        return {"neighbour": neighbours(tree), "tree_view": tree_views(tree), "client_topic": topic}

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
        if not due.kinds.isdisjoint(HANDLED):
            outbox.append(_handle(due, result))
        if due.crashes.crashed is not None:
            neighbour, setting = due.state["neighbour"], due.fixed["setting"]
            outbox.append(handling.detections(due.crashes.crashed, neighbour, setting))
        if outbox:
            result.outbox = reduce(DataFrame.unionByName, [_completed(part) for part in outbox])
        if events:
            result.call_event = reduce(DataFrame.unionByName, [event.select(*_EVENT) for event in events])
        return result


def _completed(outbox: DataFrame) -> DataFrame:
    """Gives an outbox with all columns of the payload, in one order."""
    given = {name: name for name in outbox.columns}
    body = [
        f"cast({given.get(field.name, 'null')} as {field.dataType.simpleString()}) as {field.name}" for field in PAYLOAD
    ]
    wait = f"cast({given.get('latency_rounds', 'null')} as bigint) as latency_rounds"
    return outbox.selectExpr(*OUTBOX, wait, *body)


def _subscribe(due: Round, result: RoundResult) -> list[DataFrame]:
    """Step 1: gives the outbox in parts."""
    neighbour, out = due.state["neighbour"], []
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
        subscriber = due.keep("subscriber", subscribe.subscribers(known))
        result.state |= {"subscriber": subscriber, "member": subscribe.members(subscriber)}
    return out


def _handle(due: Round, result: RoundResult) -> DataFrame:
    """Step 2: gives the outbox."""
    items = [handling.inbox_items(due.inbox)]
    if due.calls is not None and "publish" in due.kinds:
        items.append(handling.call_items(due.calls))
    got = due.keep("items", reduce(DataFrame.unionByName, items))
    touched = due.keep("touched", got.select("run_id", "node_id").distinct())
    known = {**due.state, **result.state}
    items = [got, *handling.state_items(known, touched, due.facts)]
    if due.may_crash:
        items += handling.repair_items(known, touched, due.fixed["setting"])
    rows = due.keep("rows", handling.handled(items))
    result.state |= handling.queues(rows, due.state, touched, due.facts) | handling.increments(rows)
    if due.may_crash and (due.facts.get("n_repairs") or not due.kinds.isdisjoint(REPAIR)):
        result.state |= handling.repaired(rows, known, touched)
        result.node_status = handling.statuses(rows)
    result.delivery = handling.deliveries(rows)
    return handling.sent(rows)


PROTOCOL = GingerProtocol()
