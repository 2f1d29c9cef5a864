"""The dataflow form of protocol ``ginger``: a round without faults is a few joins and windows over the nodes' tables.

Parameters have the names that the docstring of module `steps` lists.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, functions as F

from pipelines.contract.nodes import program_states
from pipelines.contract.protocol import SETTINGS_JSON
from pipelines.contract.round import CALL_TRIGGER, DataflowForm, Round, RoundResult, Start
from pipelines.contract.rows import NODE, deliveries, issued, mapped, outbox, row_number
from pipelines.engines.frames import union
from pipelines.protocols.ginger import PROTOCOL, steps
from pipelines.protocols.ginger.steps import BODY, ID, PAYLOAD, TOPIC, branches, brought, handled
from udfs.ginger.node import POSITIONS
from udfs.ginger.program import Ginger
from udfs.nodes.arrow import CALL, rows_of
from udfs.nodes.block import GIVEN, OVERLAY, block_of, block_schema

_SENT = ("Subscribe", "Subscribed", "Metadata", "TotalAck", "TotalProcessed")
_ORDERED = frozenset({"Metadata", "TotalAck", "TotalProcessed"})
_INITIAL = ("neighbour", "tree_view", "contact", "client_topic", "repair", "election")
"""The tables that have rows before the first round."""
_NO_ROWS = "cast(null as array<struct<round:bigint>>)"


class GingerSteps(DataflowForm):
    """The dataflow form of protocol ``ginger``, which the engine runs."""

    payload = PAYLOAD
    body = BODY
    states = program_states(PROTOCOL)

    def start(self, start: Start) -> RoundResult:
        """Returns the rows of the tables before the first round: tree, views, contacts, and topics of clients.

        The node program computes them: its first block ends before round 0.
        """
        lists = {
            "overlay": (start.run.node, OVERLAY), "links": (start.run.link, GIVEN["links"]),
            "all_calls": (start.calls, ("node_id", *CALL)),
        }  # fmt: skip
        others = [f"{_NO_ROWS} as {name}" for name in (*GIVEN, "calls", "attributes") if name not in lists]
        head = "run_id", f"{SETTINGS_JSON} as settings", "cast(-1 as bigint) as last", "false as may_duplicate"
        run = start.run.setting.selectExpr(*head, *others)
        for name, (rows, columns) in lists.items():
            of_run = rows.groupBy("run_id").agg(F.expr(f"collect_list(struct({', '.join(columns)})) as {name}"))
            run = run.join(of_run, "run_id", "left")
        result = mapped(run, run.columns, block_of(Ginger), block_schema(rows_of(Ginger)))
        initial = start.keep("initial", result.selectExpr("run_id", *_INITIAL))
        each = {name: initial.selectExpr("run_id", f"explode({name}) as one") for name in _INITIAL}
        return RoundResult({name: rows.selectExpr("run_id", "one.*") for name, rows in each.items()})

    def round(self, round_: Round) -> RoundResult:
        """Computes one round: subscriptions, messages at brokers, deliveries, and calls of clients."""
        kinds, state, result, out = round_.kinds, round_.state, RoundResult(), list[DataFrame]()
        if not kinds.isdisjoint(_SENT):
            message = round_.keep("message", handled(round_.inbox, state["neighbour"]))
            if not kinds.isdisjoint(("Subscribe", "Subscribed")):
                out += _subscriptions(round_, message, result)
            if not kinds.isdisjoint(_ORDERED):
                out += _dissemination(round_, message, result)
            if "Metadata" in kinds:
                copies = message.where("kind = 'Metadata' and relationship = 'edge'")
                result.delivery = deliveries(copies)
                result.added["delivered"] = delivery_rows(copies)
        if round_.calls is not None:
            out.append(called_out(round_.calls, state["neighbour"]))
            event = issued(round_.calls)
            result.call_event = event if result.call_event is None else result.call_event.unionByName(event)
        if out:
            result.outbox = union(out)
        return result


def _subscriptions(round_: Round, message: DataFrame, result: RoundResult) -> list[DataFrame]:
    """Handles Subscribe and Subscribed. Adds the changed tables to `result`. Returns the messages that brokers send."""
    state, out, changed = round_.state, list[DataFrame](), list[DataFrame]()
    at_broker = message.where("relationship <> 'edge'")
    if "Subscribe" in round_.kinds:
        subscribe = at_broker.where("kind = 'Subscribe'")
        out.append(steps.flooded(subscribe, state["neighbour"], round_.run.setting))
        changed.append(steps.new_subscribe(subscribe, state["neighbour"]))
        way = round_.keep("way", steps.ways(subscribe, state["member"]))
        member, subscriber = state["member"], state["subscriber"]
        result.state["member"] = steps.replaced(member, steps.new_members(way, member), TOPIC)
        new = steps.new_subscribers(subscribe, way)
        result.state["subscriber"] = steps.replaced(subscriber, new, [*TOPIC, "neighbour"])
    if "Subscribed" in round_.kinds:
        subscribed = at_broker.where("kind = 'Subscribed'")
        changed.append(steps.answered(subscribed, state["subscribe"]))
        result.call_event = confirmations(message)
    rows = round_.keep("subscribe_rows", union(changed))
    result.state["subscribe"] = steps.replaced(state["subscribe"], rows, [*NODE, "subscription_id"])
    return [*out, steps.answers(rows)]


def _dissemination(round_: Round, message: DataFrame, result: RoundResult) -> list[DataFrame]:
    """Handles Metadata, TotalAck and TotalProcessed at brokers, and adds the changed tables to `result`.

    Returns the messages that brokers send.
    """
    state = round_.state
    at_broker = message.where("relationship <> 'edge' and kind in ('Metadata', 'TotalAck', 'TotalProcessed')")
    topics = at_broker.selectExpr(*TOPIC).distinct()
    branch = round_.keep("branch", branches(state["subscriber"], state["neighbour"], topics))
    summary = round_.keep("summary", steps.branch_summaries(branch))
    lock = round_.keep("lock", steps.broker_locks(at_broker, summary))
    of_due = topics.hint("shuffle_hash")
    ack = at_broker.where("kind = 'TotalAck'")
    now = at_broker.groupBy(TOPIC).agg(F.expr("max(round) as round")).hint("shuffle_hash")
    pending = steps.acknowledged(state["pending"].join(of_due, TOPIC), ack, summary).join(now, TOPIC)
    pending = round_.keep("acknowledged", pending)
    due = steps.due_rows(at_broker, lock, pending)
    decision = round_.keep("decision", steps.decided(due, state["entry_queue"], pending, summary))
    turn = round_.keep("turn", steps.broker_turns(at_broker, lock).unionByName(decision))
    entered = turn.where("rank > 0 and what = 'locked'").selectExpr("*", "cast(array() as array<bigint>) as acked")
    taken = [steps.brought(at_broker).selectExpr("*", "cast(0 as bigint) as rank"), lock, entered]
    arrival = round_.keep("arrival", steps.arrivals(taken))
    result.state["entry_queue"] = next_queue(state["entry_queue"], at_broker, arrival, decision)
    after = round_.keep("pending_after", next_pending(state["pending"], pending, [lock, entered], arrival, turn))
    result.state["pending"] = after
    result.state["locked"] = after.selectExpr(*TOPIC, "source", "source_seq", "explode(keys) as key_item")
    return [steps.sent_onward(turn, branch)]


STEPS = GingerSteps()


_LEFT, _DONE = "what in ('passed', 'locked')", "what = 'processed'"


def next_queue(queue: DataFrame, message: DataFrame, arrival: DataFrame, decision: DataFrame) -> DataFrame:
    """Returns table entry_queue after a round.

    Adds the messages of clients, and removes messages with a decision ``passed`` or ``locked``. `arrival` is the result
    of `steps.arrivals`, and `decision` is the result of `steps.decided`.
    """
    first = arrival.where("rank = 0").selectExpr(*ID, "arrival").hint("shuffle_hash")
    new = brought(message).join(first, ID).selectExpr("*", "sender as client").selectExpr(*queue.columns)
    return queue.unionByName(new).join(decision.where(_LEFT).selectExpr(*ID).hint("shuffle_hash"), ID, "left_anti")


def next_pending(
    table: DataFrame, acknowledged: DataFrame, locks: list[DataFrame], arrival: DataFrame, turn: DataFrame
) -> DataFrame:
    """Returns table pending after a round: the total-order messages that brokers have not processed yet.

    Args:
        table: Table pending before the round.
        acknowledged: The rows of table pending at brokers and topics with due messages, after `steps.acknowledged`.
        locks: New locks, with the columns of `steps.broker_locks`.
        arrival: The result of `steps.arrivals`.
        turn: All turns (decisions about messages) of the round (columns `steps.TURN`).
    """
    touched = acknowledged.selectExpr(*ID).hint("shuffle_hash")
    rows = table.join(touched, ID, "left_anti").unionByName(acknowledged.selectExpr(*table.columns))
    for lock in locks:
        new = lock.join(arrival.hint("shuffle_hash"), [*ID, "rank"])
        rows = rows.unionByName(new.selectExpr("*", "cast(null as array<bigint>) as sent").selectExpr(*table.columns))
    told = turn.where("what = 'sent'").selectExpr(*ID, "covered as told").hint("shuffle_hash")
    columns = [f"coalesce(told, {name}) as {name}" if name == "sent" else name for name in table.columns]
    rows = rows.join(told, ID, "left").selectExpr(*columns)
    return rows.join(turn.where(_DONE).selectExpr(*ID).hint("shuffle_hash"), ID, "left_anti")


def called_out(calls: DataFrame, neighbour: DataFrame) -> DataFrame:
    """Returns the messages that clients send for their due calls: Subscribe or Metadata to the edge broker."""
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


def delivery_rows(copies: DataFrame) -> DataFrame:
    """Returns the new rows of table delivered for `copies`, the messages that clients deliver."""
    number = row_number("deliveries of a client", ", ".join(NODE), "trigger")
    position = f"round * {POSITIONS} + {number} as position"
    return copies.selectExpr(*NODE, position, "topic", "source", "source_seq")


def confirmations(message: DataFrame) -> DataFrame:
    """Returns rows of table call_event: the subscriptions for which clients receive Subscribed in this round."""
    own = message.where("kind = 'Subscribed' and relationship = 'edge'")
    return own.selectExpr("run_id", "node_id as source", "source_seq", "round", "'confirmed' as event")
