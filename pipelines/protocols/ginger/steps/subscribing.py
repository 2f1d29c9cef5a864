"""Subscribe floods the tree with its path; the sub-trees of topics follow from it (sections 3.4 and 4.2.1)."""

from __future__ import annotations

from pyspark.sql import DataFrame

from pipelines.contract.rows import NODE, outbox, row_number
from pipelines.protocols.ginger.steps.rows import FROM_BROKER, PAYLOAD, TOPIC, united

_SUBSCRIPTION = [*NODE, "subscription_id"]


def flooded(subscribe: DataFrame, neighbour: DataFrame, setting: DataFrame) -> DataFrame:
    """Passes each Subscribe on to all brokers but the sender: the outbox.

    Args:
        subscribe: The Subscribe messages at brokers: *message*.
        neighbour: Table neighbour.
        setting: ``max_hops`` of each run: over so many hops a step stays in the path.
    """
    brokers = neighbour.where(FROM_BROKER).selectExpr(*NODE, "neighbour", "relationship as towards")
    onward = brokers.join(subscribe.hint("shuffle_hash"), NODE).where("neighbour <> sender")
    direction = "array(case towards when 'child' then 'down' else 'up' end)"
    return outbox(
        onward.join(setting.select("run_id", "max_hops").hint("shuffle_hash"), "run_id"), PAYLOAD, trigger="trigger",
        kind="'Subscribe'", src="node_id", dst="neighbour", sent_round="round", source="source",
        source_seq="source_seq", topic="topic", subscription_id="subscription_id", edge="coalesce(edge, node_id)",
        directions=f"slice(concat({direction}, directions), 1, cast(max_hops as int))",
        way="concat(way, array(node_id))",
    )  # fmt: skip


def new_subscribe(subscribe: DataFrame, neighbour: DataFrame) -> DataFrame:
    """Returns the rows of table subscribe for Subscribe messages, with ``trigger`` and ``round``.

    Args:
        subscribe: The Subscribe messages at brokers: *message*.
        neighbour: Table neighbour.
    """
    degree = neighbour.where(FROM_BROKER).groupBy(NODE).agg({"neighbour": "count"})
    degree = degree.selectExpr(*NODE, "`count(neighbour)` as degree")
    from_broker = f"case when {FROM_BROKER} then 1 else 0 end"
    return subscribe.join(degree.hint("shuffle_hash"), NODE, "left").selectExpr(
        *_SUBSCRIPTION, "topic", "source", "source_seq", "coalesce(edge, node_id) as edge", "sender as next_hop",
        f"coalesce(degree, 0) - {from_broker} as n_waiting", "trigger", "round",
    )  # fmt: skip


def answered(subscribed: DataFrame, table: DataFrame) -> DataFrame:
    """Returns the rows of table subscribe that answers change, with the last answer's ``trigger`` and ``round``.

    Args:
        subscribed: The Subscribed messages at brokers: *message*.
        table: Table subscribe.
    """
    came = subscribed.groupBy(_SUBSCRIPTION).agg({"sender": "count", "trigger": "max", "round": "max"})
    came = came.selectExpr(
        *_SUBSCRIPTION, "`count(sender)` as n_came", "`max(trigger)` as trigger", "`max(round)` as round"
    )
    return table.join(came.hint("shuffle_hash"), _SUBSCRIPTION).selectExpr(
        *_SUBSCRIPTION, "topic", "source", "source_seq", "edge", "next_hop", "n_waiting - n_came as n_waiting",
        "trigger", "round",
    )  # fmt: skip


def answers(changed: DataFrame) -> DataFrame:
    """Answers the neighbour that brought a Subscribe when all others have answered: the outbox.

    Args:
        changed: See `new_subscribe` and `answered`.
    """
    return outbox(
        changed.where("n_waiting = 0"), PAYLOAD, trigger="trigger", rank="1", kind="'Subscribed'", src="node_id",
        dst="next_hop", sent_round="round", source="source", source_seq="source_seq",
        subscription_id="subscription_id",
    )  # fmt: skip


def ways(subscribe: DataFrame, member: DataFrame) -> DataFrame:
    """Returns the ways from brokers to the edge brokers of new subscribers: TOPIC, ``source, way, n_shared, approach``.

    ``approach`` is the way to the nearest broker of the sub-tree so far; null: the broker has not heard of the topic.
    ``n_shared`` brokers at the beginning are common to all ways of the topic.

    Args:
        subscribe: The Subscribe messages at brokers: *message*.
        member: Table member.
    """
    own = subscribe.selectExpr(*TOPIC, "source", "trigger", "concat(array(node_id), reverse(way)) as way")
    first = row_number("subscriptions at a broker", ", ".join(TOPIC), "trigger")
    own = own.selectExpr("*", f"{first} as number")
    known = member.select(*TOPIC, "approach").join(own.select(TOPIC).distinct().hint("shuffle_hash"), TOPIC)
    led = own.join(known.hint("shuffle_hash"), TOPIC, "left")
    led = led.join(own.where("number = 1").selectExpr(*TOPIC, "way as first_way").hint("shuffle_hash"), TOPIC)
    led = led.selectExpr(*TOPIC, "source", "way", "approach", "coalesce(approach, first_way) as leading")
    same = "size(filter(sequence(1, least(size(way), size(leading))), i -> slice(way, 1, i) = slice(leading, 1, i)))"
    common = led.selectExpr(*TOPIC, f"{same} as n_common").groupBy(TOPIC).agg({"n_common": "min"})
    common = common.selectExpr(*TOPIC, "`min(n_common)` as n_shared")
    return led.join(common.hint("shuffle_hash"), TOPIC).select(*TOPIC, "source", "way", "n_shared", "approach")


def new_members(way: DataFrame, member: DataFrame) -> DataFrame:
    """Returns the rows of table member that Subscribe messages change: the brokers between edge brokers, and clients.

    Args:
        way: See `ways`.
        member: Table member.
    """
    inside = "slice(way, n_shared, size(way))"
    before = "coalesce(slice(approach, n_shared, size(approach)), cast(array() as array<bigint>))"
    found = way.selectExpr(
        *TOPIC,
        f"concat(array(source), {inside}, {before}) as part",
        "slice(coalesce(approach, way), 1, n_shared) as top",
    )
    grown = found.groupBy(TOPIC).agg({"part": "collect_list", "top": "collect_list"})
    grown = grown.selectExpr(*TOPIC, "flatten(`collect_list(part)`) as part", "get(`collect_list(top)`, 0) as approach")
    known = member.select(*TOPIC, "members").hint("shuffle_hash")
    return grown.join(known, TOPIC, "left").selectExpr(
        *TOPIC,
        "array_sort(array_distinct(concat(coalesce(members, cast(array() as array<bigint>)), part))) as members",
        "approach",
    )


def new_subscribers(subscribe: DataFrame, way: DataFrame) -> DataFrame:
    """Returns rows of table subscriber that Subscribe messages bring; some may be there.

    Args:
        subscribe: The Subscribe messages at brokers: *message*.
        way: See `ways`.
    """
    client = subscribe.where("relationship = 'client'").selectExpr(
        *TOPIC, "sender as neighbour", "'client' as relationship"
    )
    # A broker is in the sub-tree when ways part at it, or one ends there.
    inside = way.where("n_shared = 1")
    hops = united([inside.selectExpr(*TOPIC, f"get({name}, 1) as neighbour") for name in ("way", "approach")])
    broker = hops.where("neighbour is not null").selectExpr(*TOPIC, "neighbour", "'broker' as relationship")
    return united([client, broker]).distinct()


def replaced(table: DataFrame, changed: DataFrame, key: list[str]) -> DataFrame:
    """Returns a table with the rows that have changed or are new."""
    kept = table.join(changed.select(key).hint("shuffle_hash"), key, "left_anti")
    return kept.unionByName(changed.select(table.columns))
