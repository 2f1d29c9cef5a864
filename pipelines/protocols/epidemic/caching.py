"""Cache: which events a dispatcher keeps a copy of, which it discards, and the replies to those who ask (section 4).

A full cache keeps the events that stand highest in an order that the policy fixes once for each of them; so it makes
no difference whether the events of a round come one after the other or at once.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from pipelines.contract import draws_sql
from pipelines.contract.ordering import row_number
from pipelines.protocols.epidemic.events import identified
from pipelines.protocols.epidemic.tables import CACHE, COPY, EVENT, NODE
from pipelines.protocols.epidemic.work import Work

_DELAY = f"buffer * {draws_sql.uniform('epidemic.discard', 'node_id', 'source', 'source_seq')}"
_CLASS = "case when eviction = 'foreign_first' and not is_own then 1 else 0 end as class"
_AGE = f"case when eviction = 'random' then position + {_DELAY} else cast(position as double) end as age"
_RANK = f"{row_number('events in a cache', 'run_id, node_id', 'class, age desc, position desc')} as keep_rank"


def store(work: Work) -> None:
    """Puts new events into caches; sets ``work.cached``: the columns of relation cache.

    Reads dispatcher, cache; writes cache.
    """
    if work.arrival is None:
        return
    setting = work.setting("recovery", "caching")
    number = row_number("events to cache", "run_id, node_id", "trigger")
    fresh = (
        work.arrival.where("is_new")
        .selectExpr("*", "kind = 'PUBLISH' or size(locals) > 0 as is_own")
        .join(setting, "run_id")
        .where("recovery <> 'none' and (is_own or caching = 'all')")
        .join(work.round.state["dispatcher"].select(*NODE, "n_cached"), NODE)
        .selectExpr(
            *COPY, f"n_cached + {number} as position", "is_own", "round as cached_round", "hops", "issued_round"
        )
        .select(CACHE.columns)
    )
    work.cached = work.round.keep("cached", fresh)
    whole = work.now("cache").unionByName(work.cached)
    work.put("cache", kept(whole, work.setting("seed", "buffer", "eviction")))


def kept(cache: DataFrame, setting: DataFrame) -> DataFrame:
    """Returns what caches keep of the events in them: at most ``buffer``, by policy ``eviction``."""
    placed = cache.join(setting, "run_id").selectExpr(*CACHE.columns, "buffer", _CLASS, _AGE)
    ranked = placed.selectExpr(*CACHE.columns, "buffer", _RANK)
    return ranked.where("keep_rank <= buffer").select(CACHE.columns)


def reply(work: Work, asked: DataFrame) -> None:
    """Sends events from caches to those who miss them, by unicast (handleReqMsg; handleGossipMsg of the pulls).

    A dispatcher sends an event once a round to the same requester. Reads tag.

    Args:
        work: The round.
        asked: Events in caches that were asked for: COPY, ``requester, trigger, round, hops, issued_round``.
    """
    once = row_number("requests for an event", "run_id, node_id, requester, source, source_seq", "trigger")
    # A digest may list an event under several patterns.
    first = work.round.keep(
        "answer", asked.distinct().selectExpr("*", f"{once} as time").where("time = 1").drop("time")
    )
    tag = tags_now(work).join(first.select(EVENT).distinct().hint("shuffle_hash"), EVENT, "left_semi")
    row = first.join(identified(tag), EVENT).join(work.setting("out_of_band_rounds"), "run_id")
    work.send(
        row.selectExpr(
            "run_id", "trigger", "cast(1 as bigint) as rank", "'REPLY' as kind", "node_id as src", "requester as dst",
            "round as sent_round", "source", "source_seq", "hops + 1 as hops", "issued_round", "matches", "tags",
            "out_of_band_rounds as latency_rounds",
        ),
        "hops", "issued_round", "matches", "tags", "latency_rounds",
    )  # fmt: skip


def tags_now(work: Work) -> DataFrame:
    """Returns the identifiers of all events so far, those of the round among them: EVENT, ``pattern_id, number``."""
    tag = work.round.state["tag"]
    if "tag" in work.result.state:
        tag = tag.unionByName(work.result.state["tag"])
    return tag.selectExpr("run_id", "node_id as source", "source_seq", "pattern_id", "number")
