"""Gossip messages: how dispatchers answer them and pass them on (handleGossipMsg and handleReqMsg, Figures 2 and 3)."""

from __future__ import annotations

from pyspark.sql import DataFrame, functions as F

from pipelines.contract import draws_sql
from pipelines.contract.ordering import row_number
from pipelines.protocols.epidemic.caching import reply, tags_now
from pipelines.protocols.epidemic.tables import COPY, NODE
from pipelines.protocols.epidemic.work import Work

LABELLED = (
    "run_id", "node_id", "trigger", "rank", "round", "style", "initiator", "pattern_id", "digest", "sender",
)  # fmt: skip
DIGEST = (
    "array_sort(collect_list(named_struct('source', source, 'pattern_id', pattern_id, 'number', number))) as digest"
)
_STYLE = "cast(case style when 'push' then 1 else 2 end as bigint)"
_DRAW = draws_sql.uniform("epidemic.forward", "node_id", "round", "initiator", _STYLE)
_IS_PASSED_ON = f"""style <> 'publisher' and (
  (not is_local and (style = 'subscriber' or push_draw = 'subscribers')) or {_DRAW} < p_forward)"""
_CHOICE = draws_sql.bits("epidemic.neighbour", "node_id", "round", "initiator", _STYLE, "next_hop")
_ANSWERED = ["run_id", "trigger", "source", "pattern_id", "number"]
_GOSSIP_FIELDS = ("style", "initiator", "pattern_id", "digest", "path")
_HEARD = (*NODE, "trigger", "rank", "sender", "round", *_GOSSIP_FIELDS)


def handle(work: Work) -> None:
    """Handles GOSSIP and REQUEST; reads the tables, received, cache, tag."""
    asked = []
    if work.has("REQUEST"):
        asked.append(_requested(work.inbox, work.now("cache")))
    if work.has("GOSSIP"):
        gossip = work.round.keep("gossip", _heard(work))
        if work.pushes:
            _request(work, gossip)
        if work.pulls:
            found = work.round.keep("found", _found(work, gossip))
            asked.append(found.where("style <> 'push'").drop("style", "pattern_id", "number"))
            _go_back(work, gossip, found)
        passed = gossip.join(work.setting("seed", "p_forward", "push_draw"), "run_id").where(_IS_PASSED_ON)
        send_towards(work, passed.select(*LABELLED))
    if asked:
        reply(work, asked[0] if len(asked) == 1 else asked[0].unionByName(asked[1]))


def send_towards(work: Work, labelled: DataFrame) -> None:
    """Sends gossip messages towards subscribers: to ``fanout`` drawn neighbours with the pattern, never back.

    Args:
        work: The round.
        labelled: Columns `LABELLED`; ``sender`` is the neighbour that the message came from, or the dispatcher itself.
    """
    target = work.table.where("next_hop <> node_id").join(labelled.hint("shuffle_hash"), [*NODE, "pattern_id"])
    drawn = (
        target.where("next_hop <> sender")
        .join(work.setting("seed", "fanout"), "run_id")
        .selectExpr("*", f"{_CHOICE} as draw")
    )
    position = row_number("neighbours to gossip with", "run_id, node_id, trigger, rank", "draw, next_hop")
    row = drawn.selectExpr("*", f"{position} as position").where("position <= fanout").selectExpr(
        "run_id", "trigger", "rank", "'GOSSIP' as kind", "node_id as src", "next_hop as dst", "round as sent_round",
        "cast(null as bigint) as source", "cast(null as bigint) as source_seq", "style", "initiator", "pattern_id",
        "digest",
    )  # fmt: skip
    work.send(row, "style", "initiator", "pattern_id", "digest")


def send_back(work: Work, routed: DataFrame) -> None:
    """Sends gossip messages to the first dispatcher on their way to a publisher.

    Where that is linked no more they are dropped, or go by unicast (setting ``broken_route``; rule E12).

    Args:
        work: The round.
        routed: ``run_id, node_id, trigger, rank, round, initiator, digest, path``; the path is not empty.
    """
    row = routed.selectExpr(
        "run_id", "trigger", "rank", "'GOSSIP' as kind", "node_id as src", "element_at(path, 1) as dst",
        "round as sent_round", "cast(null as bigint) as source", "cast(null as bigint) as source_seq",
        "'publisher' as style", "initiator", "cast(null as bigint) as pattern_id", "digest",
        "slice(path, 2, size(path)) as path",
    )  # fmt: skip
    if not work.round.faults.links.may_change:
        work.send(row, *_GOSSIP_FIELDS)
        return
    linked = work.round.faults.links.now.selectExpr("run_id", "src", "dst", "true as is_linked").hint("shuffle_hash")
    known = row.join(linked, ["run_id", "src", "dst"], "left").selectExpr(*row.columns, "is_linked")
    known = known.join(work.setting("broken_route", "out_of_band_rounds"), "run_id")
    latency = "case when is_linked is null then out_of_band_rounds end as latency_rounds"
    row = known.where("is_linked or broken_route = 'unicast'").selectExpr(*row.columns, latency)
    work.send(row, *_GOSSIP_FIELDS, "latency_rounds")


def _heard(work: Work) -> DataFrame:
    local = work.table.where("next_hop = node_id").selectExpr(*NODE, "pattern_id", "true as is_subscribed")
    message = work.inbox.where("kind = 'GOSSIP'").selectExpr(
        "run_id", "dst as node_id", "message_id as trigger", "cast(0 as bigint) as rank", "src as sender",
        "due_round as round", *_GOSSIP_FIELDS,
    )  # fmt: skip
    joined = message.hint("shuffle_hash").join(local, [*NODE, "pattern_id"], "left")
    return joined.selectExpr(*_HEARD, "coalesce(is_subscribed, false) as is_local")


def _entries(gossip: DataFrame) -> DataFrame:
    return gossip.selectExpr(
        *NODE, "trigger", "round", "style", "initiator", "explode(digest) as entry"
    ).selectExpr(
        *NODE, "trigger", "round", "style", "initiator", "entry.source as source", "entry.pattern_id as pattern_id",
        "entry.number as number",
    )  # fmt: skip


def _request(work: Work, gossip: DataFrame) -> None:
    """Push: a subscriber asks the initiator for what the digest lists and it has not received (Figure 2)."""
    entry = _entries(gossip.where("style = 'push' and is_local")).withColumnRenamed("number", "source_seq")
    received = work.round.state["received"]
    if "received" in work.result.state:
        received = received.unionByName(work.result.state["received"])
    had = received.join(entry.select(COPY).hint("shuffle_hash"), COPY, "left_semi").select(COPY).distinct()
    missed = entry.join(had, COPY, "left_anti").withColumnRenamed("source_seq", "number")
    wanted = missed.groupBy(*NODE, "trigger", "round", "initiator").agg(F.expr(DIGEST))
    row = wanted.join(work.setting("out_of_band_rounds"), "run_id").selectExpr(
        "run_id", "trigger", "cast(1 as bigint) as rank", "'REQUEST' as kind", "node_id as src", "initiator as dst",
        "round as sent_round", "cast(null as bigint) as source", "cast(null as bigint) as source_seq", "digest",
        "out_of_band_rounds as latency_rounds",
    )  # fmt: skip
    work.send(row, "digest", "latency_rounds")


def _requested(inbox: DataFrame, cache: DataFrame) -> DataFrame:
    """Returns the events in the cache that a REQUEST lists (handleReqMsg)."""
    request = inbox.where("kind = 'REQUEST'").selectExpr(
        "run_id", "dst as node_id", "src as requester", "message_id as trigger", "due_round as round",
        "explode(digest) as entry",
    )  # fmt: skip
    listed = request.selectExpr(
        *NODE, "requester", "trigger", "round", "entry.source as source", "entry.number as source_seq"
    )
    return _in_cache(listed, cache)


def _found(work: Work, gossip: DataFrame) -> DataFrame:
    """Returns the lost events that a pull's digest lists and the cache holds, under any pattern of theirs."""
    entry = _entries(gossip.where("style <> 'push'")).withColumnRenamed("initiator", "requester")
    event = tags_now(work).join(entry.hint("shuffle_hash"), ["run_id", "source", "pattern_id", "number"])
    return _in_cache(event, work.now("cache"))


def _in_cache(listed: DataFrame, cache: DataFrame) -> DataFrame:
    return cache.select(*COPY, "hops", "issued_round").join(listed.hint("shuffle_hash"), COPY)


def _go_back(work: Work, gossip: DataFrame, found: DataFrame) -> None:
    """Publisher pull: what is not answered yet goes to the next dispatcher on the route (rule E7)."""
    going = gossip.where("style = 'publisher' and size(path) > 0")
    rest = _entries(going).join(found.select(_ANSWERED).hint("shuffle_hash"), _ANSWERED, "left_anti")
    left = rest.groupBy("run_id", "trigger").agg(F.expr(DIGEST))
    send_back(work, going.drop("digest").join(left.hint("shuffle_hash"), ["run_id", "trigger"]))
