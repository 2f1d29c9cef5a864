"""Protocol ``ginger`` without faults as dataflow: a round is a few joins and windows over the tables of all nodes."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import DataFrame, functions as F

from pipelines.contract.nodes import program_states
from pipelines.contract.protocol import SETTINGS_JSON
from pipelines.contract.round import DataflowForm, Round, RoundResult, Start
from pipelines.contract.rows import NODE, deliveries, issued, mapped
from pipelines.protocols.ginger import PROTOCOL
from pipelines.protocols.ginger.steps import clients, entries, locks, onward, subscribing, tables
from pipelines.protocols.ginger.steps.rows import BODY, PAYLOAD, TOPIC, branches, handled
from udfs.ginger.program import INITIAL, initial_rows, initial_schema

_SENT = ("Subscribe", "Subscribed", "Metadata", "TotalAck", "TotalProcessed")
_ORDERED = frozenset({"Metadata", "TotalAck", "TotalProcessed"})
_START_COLUMNS = {
    "nodes": "node_id, name, role", "links": "src, dst, latency_rounds", "calls": "node_id, kind, topic",
}  # fmt: skip


class GingerSteps(DataflowForm):
    """The protocol as the engine sees it."""

    kinds = PROTOCOL.kinds
    payload = PAYLOAD
    body = BODY
    states = program_states(PROTOCOL)

    @property
    def told_apart(self) -> tuple[str, ...]:
        """The kinds that are sent without faults."""
        return _SENT

    def start(self, start: Start) -> dict[str, DataFrame]:
        """Returns the tree, and what nodes see of it."""
        run = start.run.setting.selectExpr("run_id", f"{SETTINGS_JSON} as settings")
        calls = start.calls.where("kind in ('publish', 'subscribe')")
        given = {"nodes": start.run.node, "links": start.run.link, "calls": calls}
        for name, rows in given.items():
            of_run = rows.groupBy("run_id").agg(F.expr(f"collect_list(struct({_START_COLUMNS[name]})) as {name}"))
            run = run.join(of_run, "run_id", "left")
        initial = start.keep("initial", mapped(run, ("run_id", "settings", *given), initial_rows, initial_schema()))
        return {name: initial.selectExpr(*NODE, f"explode({name}) as one").select(*NODE, "one.*") for name in INITIAL}

    def round(self, round_: Round) -> RoundResult:
        """Plays one round: subscriptions, then messages at brokers, then deliveries and calls of clients."""
        due, state, result, out = round_.due, round_.state, RoundResult(), list[DataFrame]()
        if not due.kinds.isdisjoint(_SENT):
            message = round_.keep("message", handled(due.inbox, state["neighbour"]))
            if not due.kinds.isdisjoint(("Subscribe", "Subscribed")):
                out += _subscriptions(round_, message, result)
            if not due.kinds.isdisjoint(_ORDERED):
                out += _dissemination(round_, message, result)
            if "Metadata" in due.kinds:
                copies = clients.delivered_copies(message)
                result.delivery = deliveries(copies)
                result.state["delivered"] = clients.delivery_rows(copies)
        if due.calls is not None:
            out.append(clients.called_out(due.calls, state["neighbour"]))
            event = issued(due.calls)
            result.call_event = event if result.call_event is None else result.call_event.unionByName(event)
        if out:
            result.outbox = reduce(DataFrame.unionByName, out)
        return result


def _subscriptions(round_: Round, message: DataFrame, result: RoundResult) -> list[DataFrame]:
    """Computes the subscriptions of a round; returns the outboxes of nodes."""
    state, out, changed = round_.state, list[DataFrame](), list[DataFrame]()
    at_broker = message.where("relationship <> 'edge'")
    if "Subscribe" in round_.due.kinds:
        subscribe = at_broker.where("kind = 'Subscribe'")
        out.append(subscribing.flooded(subscribe, state["neighbour"], round_.run.setting))
        changed.append(subscribing.new_subscribe(subscribe, state["neighbour"]))
        way = round_.keep("way", subscribing.ways(subscribe, state["member"]))
        member, subscriber = state["member"], state["subscriber"]
        result.state["member"] = subscribing.replaced(member, subscribing.new_members(way, member), TOPIC)
        new = subscribing.new_subscribers(subscribe, way)
        result.state["subscriber"] = subscribing.replaced(subscriber, new, [*TOPIC, "neighbour"])
    if "Subscribed" in round_.due.kinds:
        subscribed = at_broker.where("kind = 'Subscribed'")
        changed.append(subscribing.answered(subscribed, state["subscribe"]))
        result.call_event = clients.confirmations(message)
    rows = round_.keep("subscribe_rows", reduce(DataFrame.unionByName, changed))
    result.state["subscribe"] = subscribing.replaced(state["subscribe"], rows, [*NODE, "subscription_id"])
    return [*out, subscribing.answers(rows)]


def _dissemination(round_: Round, message: DataFrame, result: RoundResult) -> list[DataFrame]:
    """Computes clients' messages at brokers in a round; returns the outboxes of brokers."""
    state = round_.state
    at_broker = message.where("relationship <> 'edge' and kind in ('Metadata', 'TotalAck', 'TotalProcessed')")
    topics = at_broker.select(TOPIC).distinct()
    branch = round_.keep("branch", branches(state["subscriber"], state["neighbour"], topics))
    summary = round_.keep("summary", locks.branch_summaries(branch))
    lock = round_.keep("lock", locks.broker_locks(at_broker, summary))
    of_due = topics.hint("shuffle_hash")
    ack = at_broker.where("kind = 'TotalAck'")
    now = at_broker.groupBy(TOPIC).agg(F.expr("max(round) as round")).hint("shuffle_hash")
    pending = locks.acknowledged(state["pending"].join(of_due, TOPIC), ack, summary).join(now, TOPIC)
    pending = round_.keep("acknowledged", pending)
    due = entries.due_rows(at_broker, lock, pending)
    decision = round_.keep("decision", entries.decided(due, state["entry_queue"], pending, summary))
    known = entries.known_messages(at_broker, state["entry_queue"], pending, lock)
    decided = entries.decided_turns(decision, known, summary)
    turn = round_.keep("turn", entries.broker_turns(at_broker, lock).unionByName(decided))
    entered = tables.entered_locks(turn.where("rank > 0"))
    taken = [entries.brought(at_broker).selectExpr("*", "cast(0 as bigint) as rank"),
             lock, entered]  # fmt: skip
    arrival = round_.keep("arrival", locks.arrivals(taken))
    result.state["entry_queue"] = tables.next_queue(state["entry_queue"], at_broker, arrival, decision)
    after = round_.keep("pending_after", tables.next_pending(state["pending"], pending, [lock, entered], arrival, turn))
    result.state["pending"] = after
    result.state["locked"] = tables.locked_items(after)
    return [onward.sent_onward(turn, branch)]


STEPS = GingerSteps()
