"""Gossip rounds: who begins one, for which pattern or source, and with which digest (startGossipRound, Figures 2, 3).

A dispatcher's gossip rounds are whole intervals apart, with a phase drawn from the seed (rule E1). One that has
nothing to gossip about is not woken, and its timer stands still: other runs may make rounds meanwhile.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import DataFrame, functions as F

from pipelines.contract import draws_sql
from pipelines.contract.ordering import row_number
from pipelines.protocols.epidemic import PUBLISHER_PULL, PUSH, SUBSCRIBER_PULL
from pipelines.protocols.epidemic.caching import tags_now
from pipelines.protocols.epidemic.gossip import DIGEST, LABELLED, send_back, send_towards
from pipelines.protocols.epidemic.tables import DISPATCHER, EVENT, NODE
from pipelines.protocols.epidemic.work import Work, among

_START = f"cast({3 << 61} as bigint) as trigger"
"""Trigger of what a gossip timer causes: after messages and calls."""
_ON_TIME = "now >= next_round and pmod(now - next_round, interval_rounds) = 0"
_PATTERN = draws_sql.bits("epidemic.pattern", "node_id", "now", "pattern_id") + " as draw"
_SOURCE = draws_sql.bits("epidemic.source", "node_id", "now", "source") + " as draw"
_SETTINGS = (
    "seed", "now", "recovery", "push_rounds", "push_patterns", "gossip_on_detection", "adaptive", "gossip_rounds_min",
    "gossip_rounds_max",
)  # fmt: skip
_END_ROUND = "greatest(coalesce(push_end_round, 0), coalesce(lost_end_round, 0))"
_HAS_MORE = f"{_END_ROUND} > now"
_INTERVAL = f"""case
  when not (adaptive and is_on_time and {_HAS_MORE}) then interval_rounds
  when is_busy then greatest(gossip_rounds_min, interval_rounds div 2)
  else least(gossip_rounds_max, interval_rounds * 2) end as new_interval"""
_NEXT = f"""case
  when now < next_round or next_round >= {_END_ROUND} then next_round
  when is_on_time then now + new_interval
  else now + new_interval - pmod(now - next_round, new_interval) end as next_round"""


def start(work: Work) -> None:
    """Begins the gossip rounds that are due; reads dispatcher, cache, lost, route, tag, tables; writes dispatcher."""
    next_gossip = work.round.facts["dispatcher"]["next_gossip"]
    is_woken = 0 < next_gossip <= work.round.number or work.round.faults.recovered is not None
    if work.arrival is None and not work.has("REQUEST") and not is_woken:
        return
    timed = work.round.keep("timed", _timed(work))
    if work.pushes:
        _push(work, timed)
    if work.pulls:
        may_pull = "lost_end_round > now and (is_on_time or (gossip_on_detection and has_detected))"
        _pull(work, timed.where(may_pull))
    work.result.state["dispatcher"] = _advanced(timed)


def _timed(work: Work) -> DataFrame:
    """Returns relation dispatcher as of now, but for the timers, with settings, ``is_on_time`` and ``has_detected``."""
    lost = work.now("lost").groupBy(NODE).agg(F.expr("max(expires_round) as expires_round"))
    frame = _of_recovered(work).join(work.setting(*_SETTINGS), "run_id")
    frame = frame.join(lost.hint("shuffle_hash"), NODE, "left")
    now = {
        "n_cached": "n_cached",
        "push_end_round": "push_end_round",
        "detected": "false",
        "asked": "false",
        "on_time": _ON_TIME,
    }
    if work.cached is not None:
        fresh = work.cached.groupBy(NODE).agg(F.expr("count(1) as n_fresh"))
        frame = frame.join(fresh.hint("shuffle_hash"), NODE, "left")
        now["n_cached"] = "n_cached + coalesce(n_fresh, 0)"
        now["push_end_round"] = (
            f"case when {among(PUSH)} and n_fresh > 0 then now + push_rounds else push_end_round end"
        )
    if work.gap is not None:
        detected = work.gap.where("size(missing) > 0").selectExpr(*NODE, "true as detected").distinct()
        frame = frame.join(detected.hint("shuffle_hash"), NODE, "left")
        now["detected"] = "coalesce(detected, false)"
    if work.has("REQUEST"):
        asked = work.inbox.where("kind = 'REQUEST'").selectExpr("run_id", "dst as node_id", "true as asked").distinct()
        frame = frame.join(asked.hint("shuffle_hash"), NODE, "left")
        now["asked"] = "coalesce(asked, false)"
    idle = [nodes.select(NODE) for nodes in (work.round.faults.down, work.round.faults.paused) if nodes is not None]
    if idle:
        silent = reduce(DataFrame.unionByName, idle).distinct().selectExpr(*NODE, "true as is_silent")
        frame = frame.join(silent.hint("shuffle_hash"), NODE, "left")
        now["on_time"] = f"{_ON_TIME} and is_silent is null"
    return frame.selectExpr(
        *NODE, *_SETTINGS, "interval_rounds", "next_round", f"{now['push_end_round']} as push_end_round",
        "expires_round as lost_end_round", f"{now['n_cached']} as n_cached",
        f"is_busy or {now['detected']} or {now['asked']} as is_busy", f"{now['detected']} as has_detected",
        f"{now['on_time']} as is_on_time",
    )  # fmt: skip


def _of_recovered(work: Work) -> DataFrame:
    """Returns relation dispatcher; who recovers in this round waits for its next gossip round (rule E15).

    What they read back may be of any commit since they crashed, and their timers may have been advanced meanwhile.
    """
    state, recovered = work.round.state["dispatcher"], work.round.faults.recovered
    if recovered is None:
        return state
    now = recovered.selectExpr(*NODE, "round as recovered_round").hint("shuffle_hash")
    waiting = "recovered_round + pmod(next_round - recovered_round, interval_rounds)"
    columns = {"next_round": f"coalesce({waiting}, next_round) as next_round"}
    return state.join(now, NODE, "left").selectExpr(*(columns.get(name, name) for name in DISPATCHER.columns))


def _advanced(timed: DataFrame) -> DataFrame:
    """Returns relation dispatcher after the round: timers that ran out start again."""
    paced = timed.selectExpr("*", _INTERVAL)
    return paced.selectExpr(
        *NODE, "new_interval as interval_rounds", _NEXT, "push_end_round", "lost_end_round", "n_cached",
        f"is_busy and not (is_on_time and {_HAS_MORE}) as is_busy",
    ).select(DISPATCHER.columns)  # fmt: skip


def _push(work: Work, timed: DataFrame) -> None:
    """Push: a digest of the cached events that match a pattern of the table, positive (Figure 2)."""
    pusher = timed.where("is_on_time and push_end_round > now")
    known = work.table.groupBy(*NODE, "pattern_id").agg(F.expr("max(next_hop = node_id) as is_local"))
    choice = pusher.hint("shuffle_hash").join(known, NODE).where("push_patterns = 'all' or is_local")
    position = f"{row_number('patterns to push', 'run_id, node_id', 'draw, pattern_id')} as position"
    chosen = choice.selectExpr(*NODE, "now", "pattern_id", _PATTERN).selectExpr("*", position).where("position = 1")
    cached = work.now("cache").select(*NODE, "source", "source_seq").join(chosen.hint("shuffle_hash"), NODE)
    matching = tags_now(work).drop("number").join(cached.hint("shuffle_hash"), [*EVENT, "pattern_id"])
    listed = matching.selectExpr(
        *NODE, "now", "pattern_id as label", "source", "cast(null as bigint) as pattern_id", "source_seq as number"
    )
    _label(work, listed, "push", 1)


def _pull(work: Work, puller: DataFrame) -> None:
    """The pulls: a digest of lost events of one local pattern, or of one source, negative (Figure 3)."""
    columns = [*NODE, "seed", "now", "recovery"]
    entry = work.now("lost").join(puller.select(columns).hint("shuffle_hash"), NODE).where("expires_round > now")
    lost = work.round.keep("losing", entry.select(*columns, "source", "pattern_id", "number"))
    position = "dense_rank() over (partition by run_id, node_id order by draw, pattern_id) as position"
    of_pattern = (
        lost.where(among(SUBSCRIBER_PULL)).selectExpr("*", _PATTERN).selectExpr("*", position).where("position = 1")
    )
    _label(work, of_pattern.selectExpr("*", "pattern_id as label"), "subscriber", 2)
    route = work.now("route").select(*NODE, "source", "path")
    position = "dense_rank() over (partition by run_id, node_id order by draw, source) as position"
    known = lost.where(among(PUBLISHER_PULL)).hint("shuffle_hash").join(route.drop("path"), [*NODE, "source"])
    of_source = known.selectExpr("*", _SOURCE).selectExpr("*", position).where("position = 1")
    digest = of_source.groupBy(*NODE, "now", "source").agg(F.expr(DIGEST))
    begun = digest.join(route, [*NODE, "source"]).selectExpr(
        *NODE, _START, "cast(3 as bigint) as rank", "now as round", "node_id as initiator", "digest", "path"
    )
    send_back(work, begun)


def _label(work: Work, listed: DataFrame, style: str, rank: int) -> None:
    """Sends a gossip message with the listed events, labelled with a pattern, towards subscribers."""
    digest = listed.groupBy(*NODE, "now", "label").agg(F.expr(DIGEST))
    begun = digest.selectExpr(
        *NODE, _START, f"cast({rank} as bigint) as rank", "now as round", f"'{style}' as style", "node_id as initiator",
        "label as pattern_id", "digest", "node_id as sender",
    )  # fmt: skip
    send_towards(work, begun.select(*LABELLED))
