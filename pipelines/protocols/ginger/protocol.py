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
from pipelines.contract.due import RunSet
from pipelines.contract.round import Protocol, Round, RoundResult, Start
from pipelines.contract.rows import issued
from pipelines.protocols.ginger import handling, parts, subscribe
from pipelines.protocols.ginger.audits import AUDITS
from pipelines.protocols.ginger.bound import beyond
from pipelines.protocols.ginger.parts import STATES
from pipelines.protocols.ginger.tables import BODY, HANDLED, KINDS, NEIGHBOUR, PART, PAYLOAD, REPAIR, SUBSCRIBE
from pipelines.protocols.ginger.tree import client_topics, contacts, neighbours, seen, tree_views

_EVENT = "run_id", "source", "source_seq", "round", "event"


class GingerProtocol(Protocol):
    """The protocol as the engine sees it."""

    kinds = KINDS
    payload = PAYLOAD
    body = BODY
    states = STATES
    audits = AUDITS
    bound = staticmethod(beyond)
    assumes: frozenset[Assumption] = frozenset({"no_loss"})

    def start(self, start: Start) -> dict[str, DataFrame]:
        """The tree stands, but for brokers that join later, and nobody has subscribed."""
        node, link = start.run.node, start.run.link
        joining = start.calls.where("kind = 'join'").select("run_id", "node_id", "join_point")
        there = node.join(joining, ["run_id", "node_id"], "left_anti")
        tree = seen(there, link, start.run.setting)
        of_nodes = [
            parts.neighbour_parts(neighbours(tree)), parts.tree_view_parts(tree_views(tree)),
            parts.client_topic_parts(client_topics(start.calls)),
        ]  # fmt: skip
        return {"part": reduce(DataFrame.unionByName, of_nodes), "contact": contacts(node, link, joining)}

    def round(self, round_: Round) -> RoundResult:
        """Makes one round, the steps of which the module text numbers."""
        result = RoundResult()
        outbox: list[DataFrame] = []
        events: list[DataFrame] = []
        if round_.due.calls is not None:
            events.append(issued(round_.due.calls))
        if not round_.due.kinds.isdisjoint(("subscribe", "Subscribe", "Subscribed")):
            outbox += _subscribe(round_, result)
            events += [subscribe.confirmed(round_.due.inbox)] if "Subscribed" in round_.due.kinds else []
        if not round_.due.kinds.isdisjoint(HANDLED) or round_.faults.recovered is not None:
            outbox += _handle(round_, result, events)
        if round_.faults.crashed is not None:
            neighbour, setting = parts.shown(NEIGHBOUR, round_.state["part"]), round_.run.setting
            outbox.append(handling.detections(round_.faults.crashed, neighbour, setting))
        if outbox:
            result.outbox = reduce(DataFrame.unionByName, outbox)
        if events:
            result.call_event = reduce(DataFrame.unionByName, [event.select(*_EVENT) for event in events])
        return result


def _subscribe(round_: Round, result: RoundResult) -> list[DataFrame]:
    """Step 1: returns the outbox in parts."""
    neighbour, out = parts.shown(NEIGHBOUR, round_.state["part"]), []
    if round_.due.calls is not None and "subscribe" in round_.due.kinds:
        out.append(subscribe.issued(round_.due.calls, neighbour))
    known = round_.state["subscribe"].selectExpr(
        "*", "cast(null as bigint) as trigger", "cast(null as bigint) as round"
    )
    if "Subscribe" in round_.due.kinds:
        out.append(subscribe.forwarded(subscribe.onward(round_.due.inbox, neighbour), round_.run.setting))
        known = round_.keep("subscribe_noted", known.unionByName(subscribe.noted(round_.due.inbox, neighbour)))
    if "Subscribed" in round_.due.kinds:
        known = round_.keep("subscribe_answered", subscribe.answered(known, round_.due.inbox))
    if not round_.due.kinds.isdisjoint(("Subscribe", "Subscribed")):
        out.append(subscribe.confirmations(known))
        result.state["subscribe"] = known.select(SUBSCRIBE.columns)
    if "Subscribe" in round_.due.kinds:
        result.state["part"] = round_.keep("part_subscribed", _with_sub_trees(round_, known))
    return out


def _with_sub_trees(round_: Round, known: DataFrame) -> DataFrame:
    """The parts, with the sub-trees of the runs in which Subscribe messages came; elsewhere they may be mended."""
    run = round_.due.inbox.where("kind = 'Subscribe'").selectExpr("run_id", "true as has_changed").distinct()
    of_runs = known.join(run.hint("shuffle_hash"), "run_id")
    subscriber = round_.keep("subscriber", subscribe.subscribers(of_runs))
    flagged = round_.state["part"].join(run.hint("shuffle_hash"), "run_id", "left")
    others = flagged.where("has_changed is null or relation not in ('subscriber', 'member')").select(PART.columns)
    changed = parts.subscriber_parts(subscriber), parts.member_parts(subscribe.members(of_runs, subscriber))
    return reduce(DataFrame.unionByName, changed, others)


def _inbox(round_: Round) -> DataFrame:
    """Whatever nodes have to handle."""
    items = [handling.inbox_items(round_.due.inbox)]
    if round_.due.calls is not None and "publish" in round_.due.kinds:
        items.append(handling.call_items(round_.due.calls))
    if round_.due.calls is not None and "join" in round_.due.kinds:
        items.append(
            handling.join_items(round_.state["contact"], _who(round_.due.calls.where("kind = 'join'")), "JOINING")
        )
    if round_.faults.recovered is not None:
        items.append(handling.join_items(round_.state["contact"], _who(round_.faults.recovered), "RECOVERING"))
    return reduce(DataFrame.unionByName, items)


def _who(frame: DataFrame) -> DataFrame:
    return frame.select("run_id", "node_id", "round")


def _told_whether_mended(round_: Round, inbox: DataFrame) -> DataFrame:
    """Adds ``is_mended``: whether the tree of a run may be mended: a node crashes or joins at some time."""
    crashing = round_.faults.crashing
    if not round_.facts["contact"]["n_joining"]:
        return crashing.marked(inbox, "is_mended")
    joining = RunSet(is_all=False, run=round_.state["contact"].where("is_joining").select("run_id").distinct())
    both = crashing.marked(joining.marked(inbox, "may_join"), "may_crash")
    return both.selectExpr(*inbox.columns, "may_join or may_crash as is_mended")


def _handle(round_: Round, result: RoundResult, events: list[DataFrame]) -> list[DataFrame]:
    """Step 2: returns the outbox in parts."""
    may_join = round_.facts["contact"]["n_joining"] > 0
    mends = round_.faults.may_crash or may_join
    got = round_.keep("got", _told_whether_mended(round_, _inbox(round_)))
    touched = got.select("run_id", "node_id", "is_mended").distinct()
    part = result.state.get("part", round_.state["part"])
    state = [handling.known(part, touched)]
    if mends:
        state += handling.memory(round_.state["metadata_buffer"], touched, round_.run.setting)
    rows = round_.keep("rows", handling.handled_rows(got, state))
    result.state["part"] = handling.parts_after(rows, part, touched)
    result.state["delivered"] = handling.delivered(rows)
    if mends:
        result.state["metadata_buffer"] = handling.buffered(rows)
    if not round_.due.kinds.isdisjoint((*REPAIR, "join")) or round_.faults.recovered is not None:
        result.node_status = handling.statuses(rows)
        events += [handling.joined(rows)] if may_join else []
    result.delivery = handling.deliveries(rows)
    if round_.faults.down is None:
        return [handling.sent(rows)]
    return [handling.sent(rows), handling.failed_connections(rows, round_.faults.down, round_.run.setting)]


PROTOCOL = GingerProtocol()
