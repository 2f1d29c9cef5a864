"""Subscribe (sections 3.4 and 4.2.1): it floods the tree with its path, and the topics' sub-trees follow from it.

Brokers answer with Subscribed when all behind them have: the client's edge broker then knows that the sub-tree stands.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, functions as F

from pipelines.contract.round import CALL_TRIGGER
from pipelines.contract.rows import outbox
from pipelines.protocols.ginger.tables import PAYLOAD, SUBSCRIBER

_NODE = ["run_id", "node_id"]
_HEAD = {
    "trigger": "trigger", "src": "node_id", "dst": "next_hop", "sent_round": "round", "source": "source",
    "source_seq": "source_seq", "subscription_id": "subscription_id",
}  # fmt: skip


def issued(calls: DataFrame, neighbour: DataFrame) -> DataFrame:
    """A client sends its subscription to its edge broker: the outbox."""
    call = neighbour.join(calls.where("kind = 'subscribe'").hint("shuffle_hash"), _NODE)
    head = {**_HEAD, "trigger": CALL_TRIGGER, "dst": "neighbour", "source": "node_id"}
    return outbox(call, PAYLOAD, kind="'Subscribe'", topic="topic", path="array()", **head)


def onward(inbox: DataFrame, neighbour: DataFrame) -> DataFrame:
    """Subscribe messages, and the brokers that they go on to: one row each, ``next_hop`` with its ``relationship``."""
    message = inbox.where("kind = 'Subscribe'").selectExpr(
        "run_id", "dst as node_id", "message_id as trigger", "src as sender", "due_round as round", "source",
        "source_seq", "subscription_id", "topic", "coalesce(edge, dst) as edge", "path",
    )  # fmt: skip
    broker = neighbour.where("relationship in ('parent', 'child')").selectExpr(
        *_NODE, "neighbour as next_hop", "relationship"
    )
    return broker.join(message.hint("shuffle_hash"), _NODE).where("next_hop <> sender")


def forwarded(at: DataFrame, setting: DataFrame) -> DataFrame:
    """Subscribe goes on to all other brokers, with the way so far and this broker at its head: the outbox."""
    farther = """transform(filter(path, entry -> entry.hop_count + 1 < max_hops), entry -> named_struct(
        'address', entry.address, 'hop_count', cast(entry.hop_count + 1 as int), 'direction', entry.direction))"""
    here = """array(named_struct('address', node_id, 'hop_count', 0,
        'direction', case when relationship = 'child' then 'down' else 'up' end))"""
    limited = at.join(setting.select("run_id", "max_hops"), "run_id")
    return outbox(
        limited, PAYLOAD, kind="'Subscribe'", topic="topic", edge="edge", path=f"concat({here}, {farther})", **_HEAD
    )


def noted(inbox: DataFrame, neighbour: DataFrame) -> DataFrame:
    """A broker keeps a Subscribe, and waits for the answers of the others: columns of its table, ``trigger, round``."""
    n_brokers = neighbour.where("relationship <> 'client'").groupBy(_NODE).agg(F.expr("count(1) as n_brokers"))
    message = inbox.where("kind = 'Subscribe'").withColumnRenamed("dst", "node_id")
    return message.join(n_brokers.hint("shuffle_hash"), _NODE, "left").selectExpr(
        *_NODE, "subscription_id", "topic", "source", "source_seq", "coalesce(edge, node_id) as edge",
        "src as next_hop",
        "coalesce(n_brokers, 0) - case when src = source then 0 else 1 end as n_waiting", "message_id as trigger",
        "due_round as round",
    )  # fmt: skip


def answered(subscribe: DataFrame, inbox: DataFrame) -> DataFrame:
    """Subscribed from a neighbour: one less to wait for; arguments and rows as `noted` returns them."""
    answer = (
        inbox.where("kind = 'Subscribed'")
        .groupBy("run_id", "dst", "subscription_id")
        .agg(F.expr("count(1) as n_answers"), F.expr("max(message_id) as last"), F.expr("max(due_round) as due"))
        .withColumnRenamed("dst", "node_id")
    )
    found = subscribe.join(answer.hint("shuffle_hash"), [*_NODE, "subscription_id"], "left")
    return found.selectExpr(
        *_NODE, "subscription_id", "topic", "source", "source_seq", "edge", "next_hop",
        "n_waiting - coalesce(n_answers, 0) as n_waiting", "coalesce(last, trigger) as trigger",
        "coalesce(due, round) as round",
    )  # fmt: skip


def confirmations(subscribe: DataFrame) -> DataFrame:
    """A broker that all others have answered answers the one from which it had the message: the outbox."""
    return outbox(subscribe.where("n_waiting = 0 and trigger is not null"), PAYLOAD, kind="'Subscribed'", **_HEAD)


def subscribers(subscribe: DataFrame) -> DataFrame:
    """The sub-trees: a broker is in that of a topic if it has subscribers at clients, or through two neighbours."""
    through = subscribe.selectExpr(
        *_NODE,
        "topic",
        "next_hop as neighbour",
        "case when next_hop = source then 'client' else 'broker' end as relationship",
    ).distinct()
    counted = through.selectExpr("*", "count(1) over (partition by run_id, node_id, topic) as n_neighbours")
    return counted.where("n_neighbours > 1 or relationship = 'client'").select(SUBSCRIBER.columns)


def members(subscribe: DataFrame, subscriber: DataFrame) -> DataFrame:
    """Who has to lock a topic's key items: the brokers of its sub-tree and its clients.

    Every broker has had the Subscribe messages and knows: it may have to mend a sub-tree that it is not in.
    """
    broker = subscriber.select(*_NODE, "topic").distinct()
    client = subscriber.where("relationship = 'client'").selectExpr("run_id", "neighbour as node_id", "topic")
    everybody = (
        broker.unionByName(client)
        .groupBy("run_id", "topic")
        .agg(F.expr("array_sort(collect_list(node_id)) as members"))
    )
    known = subscribe.select(*_NODE, "topic").distinct()
    return known.join(everybody, ["run_id", "topic"]).select(*_NODE, "topic", "members")


def confirmed(inbox: DataFrame) -> DataFrame:
    """The client hears that its subscription stands: call events."""
    return inbox.where("kind = 'Subscribed' and dst = source").selectExpr(
        "run_id", "source", "source_seq", "due_round as round", "'confirmed' as event"
    )
