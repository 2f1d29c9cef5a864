"""Events: identifiers at the source (section 4.2), forwarding by the subscription tables, delivery (section 2.1).

An *arrival* is a copy of an event at a dispatcher: published there, come over the tree, or sent as a reply. The first
copy of all is delivered, cached and counted; the first that came over the tree is passed on, also after a reply.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, functions as F

from pipelines.contract.ordering import row_number
from pipelines.contract.round import CALL_TRIGGER
from pipelines.protocols.epidemic.tables import COPY, EVENT, NODE, RECEIVED
from pipelines.protocols.epidemic.work import Work

_CONTENT = ["hops", "issued_round", "matches", "tags", "path"]


def take(work: Work) -> None:
    """Handles EVENT, REPLY and publish; sets ``work.arrival``.

    An arrival has the columns COPY, ``kind, trigger, sender, round``, the content, ``is_new``, ``is_routable``,
    ``next_hops`` (where the event is wanted) and ``locals`` (the local patterns that want it).

    Reads pattern, counter, received, the tables; writes counter, tag, received, the deliveries.
    """
    parts = []
    if work.has("EVENT", "REPLY"):
        parts.append(_received(work.inbox))
    if work.has("publish") and work.round.due.calls is not None:
        parts.append(_published(work, work.round.due.calls.where("kind = 'publish'")))
    if not parts:
        return
    whole = parts[0] if len(parts) == 1 else parts[0].unionByName(parts[1])
    arriving = work.round.keep("arriving", whole)
    known = _known(arriving, work.round.state["received"])
    arrival = work.round.keep("arrival", _arrivals(arriving, known, _wanted(arriving, work.table)))
    work.arrival = arrival
    changed = arrival.where("is_new or is_routable")
    work.result.state["received"] = changed.selectExpr(*COPY, "is_routable as is_routed").select(RECEIVED.columns)
    work.fates.append(
        arrival.where("kind <> 'PUBLISH' and not is_routable and not (kind = 'REPLY' and is_new)").selectExpr(
            "run_id", "trigger as message_id", "'duplicate' as fate"
        )
    )
    work.result.delivery = arrival.where("is_new and size(locals) > 0").selectExpr(
        "run_id", "node_id as subscriber", "source", "source_seq", "round", "round - issued_round as latency_rounds",
        "cast(hops as bigint) as hops",
    )  # fmt: skip
    work.send(_forwarded(arrival), *_CONTENT)


def _received(inbox: DataFrame) -> DataFrame:
    return inbox.where("kind in ('EVENT', 'REPLY')").selectExpr(
        "run_id", "dst as node_id", "source", "source_seq", "kind", "message_id as trigger", "src as sender",
        "due_round as round", *_CONTENT,
    )  # fmt: skip


def _published(work: Work, call: DataFrame) -> DataFrame:
    """Tags the round's publications with the patterns that their sources know, and counts those: ``S:Pa-5:Pb-4``."""
    tag = work.round.keep("tagging", _tags(call, work.now("pattern"), work.table, work.now("counter")))
    work.result.state["tag"] = tag.selectExpr(*NODE, "source_seq", "pattern_id", "number", "round as issued_round")
    highest = tag.groupBy(*NODE, "pattern_id").agg({"number": "max"}).toDF(*NODE, "pattern_id", "number")
    counted = highest.where("number is not null")
    counter = work.now("counter")
    others = counter.join(counted.select(*NODE, "pattern_id").hint("shuffle_hash"), [*NODE, "pattern_id"], "left_anti")
    work.result.state["counter"] = others.select(counter.columns).unionByName(counted)
    content = identified(tag.withColumnRenamed("node_id", "source"))
    return call.selectExpr(*NODE, "node_id as source", "source_seq", f"{CALL_TRIGGER} as trigger", "round").join(
        content, EVENT
    ).selectExpr(
        "run_id", "node_id", "source", "source_seq", "'PUBLISH' as kind", "trigger", "cast(null as bigint) as sender",
        "round", "0 as hops", "round as issued_round", "matches", "tags", "cast(array() as array<bigint>) as path",
    )  # fmt: skip


def _tags(call: DataFrame, pattern: DataFrame, table: DataFrame, counter: DataFrame) -> DataFrame:
    """Returns a row per publication and pattern that it satisfies; without number where the source does not know it."""
    matched = call.selectExpr(*NODE, "source_seq", "round", "explode(matches) as subscription_id")
    of = pattern.select("run_id", "subscription_id", "pattern_id")
    satisfied = matched.join(of, ["run_id", "subscription_id"]).drop("subscription_id").distinct()
    known = table.selectExpr(*NODE, "pattern_id", "true as is_known").distinct()
    before = counter.withColumnRenamed("number", "n_before")
    key = [*NODE, "pattern_id"]
    position = row_number("publications of a pattern", ", ".join(key), "source_seq")
    number = f"case when is_known then coalesce(n_before, 0) + {position} end as number"
    joined = satisfied.hint("shuffle_hash").join(known, key, "left").join(before, key, "left")
    return joined.selectExpr(*NODE, "source_seq", "pattern_id", "round", number)


def identified(tag: DataFrame) -> DataFrame:
    """Returns the events of rows of relation ``tag``: EVENT, ``matches, tags``."""
    entry = "case when number is not null then named_struct('pattern_id', pattern_id, 'number', number) end as entry"
    rows = tag.selectExpr(*EVENT, "pattern_id", entry)
    lists = ("array_sort(collect_list(pattern_id)) as matches", "array_sort(collect_list(entry)) as tags")
    return rows.groupBy(EVENT).agg(*map(F.expr, lists))


def _known(arriving: DataFrame, received: DataFrame) -> DataFrame:
    """Returns those of the arriving events that their dispatchers had before: COPY, ``was_routed``."""
    key = arriving.select(COPY).distinct()
    return received.join(key.hint("shuffle_hash"), COPY).groupBy(COPY).agg({"is_routed": "max"}).toDF(
        *COPY, "was_routed"
    )  # fmt: skip


def _wanted(arriving: DataFrame, table: DataFrame) -> DataFrame:
    """Matches the arriving events against the tables: COPY, ``next_hops, locals``, sorted and without repetition."""
    match = arriving.selectExpr(*COPY, "explode(matches) as pattern_id").distinct()
    entry = table.join(match.hint("shuffle_hash"), [*NODE, "pattern_id"])
    local = "case when next_hop = node_id then pattern_id end as local"
    sets = ("array_sort(collect_set(next_hop)) as next_hops", "array_sort(collect_set(local)) as locals")
    return entry.selectExpr(*COPY, "next_hop", local).groupBy(COPY).agg(*map(F.expr, sets))


def _arrivals(arriving: DataFrame, known: DataFrame, wanted: DataFrame) -> DataFrame:
    nothing = "cast(array() as array<bigint>)"
    first = row_number("copies of an event", ", ".join(COPY), "trigger")
    first_of_kind = row_number("copies of an event", f"{', '.join(COPY)}, kind = 'REPLY'", "trigger")
    joined = arriving.join(known.hint("shuffle_hash"), COPY, "left").join(wanted.hint("shuffle_hash"), COPY, "left")
    return joined.selectExpr(
        *arriving.columns, f"coalesce(next_hops, {nothing}) as next_hops", f"coalesce(locals, {nothing}) as locals",
        f"was_routed is null and {first} = 1 as is_new",
        f"kind <> 'REPLY' and not coalesce(was_routed, false) and {first_of_kind} = 1 as is_routable",
    )  # fmt: skip


def _forwarded(arrival: DataFrame) -> DataFrame:
    """Returns the EVENT messages to the neighbours that want the event, never back; the dispatcher is on their path."""
    return arrival.where("is_routable").selectExpr(
        "run_id", "trigger", "cast(0 as bigint) as rank", "'EVENT' as kind", "node_id as src",
        "explode(filter(next_hops, next_hop -> next_hop <> node_id and next_hop <> coalesce(sender, node_id))) as dst",
        "round as sent_round", "source", "source_seq", "hops + 1 as hops", "issued_round", "matches", "tags",
        "concat(path, array(node_id)) as path",
    )  # fmt: skip
