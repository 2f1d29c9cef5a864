"""Loss detection by the counters of identifiers, LostBuffer and Routes (section 4.2)."""

from __future__ import annotations

from pyspark.sql import DataFrame, functions as F

from pipelines.contract.ordering import row_number
from pipelines.protocols.epidemic import PUBLISHER_PULL, SUBSCRIBER_PULL
from pipelines.protocols.epidemic.tables import LOSS, LOST, NODE, ROUTE
from pipelines.protocols.epidemic.work import Work, among

_SERIES = [*NODE, "source", "pattern_id"]
_OLDEST_LAST = row_number("lost events", "run_id, node_id", "detected_round desc, source, pattern_id, number")


def detect(work: Work) -> None:
    """Compares the counters of new events with those expected; sets ``work.gap``: a row per series of counters.

    Only gaps of locally subscribed patterns are losses; a late copy takes an event out of LostBuffer under all its
    patterns (rules E8 and E9). Reads client, expected, lost; writes expected, lost.
    """
    if work.arrival is None or not work.has("EVENT", "REPLY"):
        return
    strategies = (*SUBSCRIBER_PULL, *PUBLISHER_PULL)
    setting = work.setting("recovery", "lost_rounds").where(among(strategies))
    arrived = work.arrival.where("is_new and kind <> 'PUBLISH'").join(setting, "run_id")
    entry = arrived.selectExpr(*NODE, "source", "trigger", "round", "lost_rounds", "locals", "explode(tags) as tag")
    tagged = work.round.keep(
        "numbered",
        entry.selectExpr(
            *NODE, "source", "trigger", "tag.pattern_id as pattern_id", "tag.number as number", "round", "lost_rounds",
            "array_contains(locals, tag.pattern_id) as is_local",
        ),
    )  # fmt: skip
    gap = work.gap = work.round.keep("gap", _gaps(tagged, work.now("expected"), work.now("client")))
    expected = work.now("expected")
    others = expected.join(gap.select(_SERIES).hint("shuffle_hash"), _SERIES, "left_anti").select(expected.columns)
    work.result.state["expected"] = others.unionByName(gap.select(expected.columns))
    missing = gap.selectExpr(
        *_SERIES, "explode(missing) as number", "round as detected_round", "round + lost_rounds as expires_round"
    )
    still = work.now("lost").join(tagged.select(LOSS).hint("shuffle_hash"), LOSS, "left_anti").select(LOST.columns)
    whole, node = still.unionByName(missing.select(LOST.columns)), tagged.select(NODE).distinct().hint("shuffle_hash")
    # Other dispatchers' losses stay as they are: when they go must not depend on rounds that other runs make.
    others = whole.join(node, NODE, "left_anti")
    near = _bounded(whole.join(node, NODE, "left_semi"), work.setting("lost_buffer", "now"))
    work.put("lost", others.select(LOST.columns).unionByName(near))


def _gaps(tagged: DataFrame, expected: DataFrame, client: DataFrame) -> DataFrame:
    """Returns what each series of counters (source, local pattern) shows: SERIES, ``next_number, missing, round``."""
    series = (
        tagged.where("is_local")
        .groupBy(*_SERIES, "round", "lost_rounds")
        .agg(F.expr("collect_set(number) as numbers"), F.expr("min_by(number, trigger) as first_number"))
    )
    initial = client.where("is_initial").selectExpr(*NODE, "pattern_id", "true as is_initial").distinct()
    joined = series.hint("shuffle_hash").join(
        expected.withColumnRenamed("next_number", "next_before"), _SERIES, "left"
    ).join(initial, [*NODE, "pattern_id"], "left")  # fmt: skip
    first = "coalesce(next_before, case when is_initial then cast(1 as bigint) else first_number end) as first"
    placed = joined.selectExpr(*_SERIES, "round", "lost_rounds", "numbers", "array_max(numbers) as top", first)
    return placed.selectExpr(
        *_SERIES, "round", "lost_rounds", "greatest(first, top + 1) as next_number",
        "case when first <= top then filter(sequence(first, top), n -> not array_contains(numbers, n))"
        " else cast(array() as array<bigint>) end as missing",
    )  # fmt: skip


def _bounded(lost: DataFrame, setting: DataFrame) -> DataFrame:
    """LostBuffer keeps the newest losses that are not given up (rule E13)."""
    valid = lost.join(setting, "run_id").where("expires_round > now")
    ranked = valid.selectExpr(*LOST.columns, "lost_buffer", f"{_OLDEST_LAST} as keep_rank")
    return ranked.where("keep_rank <= lost_buffer").select(LOST.columns)


def record_routes(work: Work) -> None:
    """Routes: the way back of each source's newest event over the tree (rule E12); writes route."""
    if work.arrival is None or not work.has("EVENT"):
        return
    setting = work.setting("recovery").where(among(PUBLISHER_PULL))
    came = work.arrival.where("kind = 'EVENT' and is_routable and size(locals) > 0").join(setting, "run_id")
    way = came.selectExpr(*NODE, "source", "source_seq", "reverse(path) as path")
    newest = row_number("events of a source", "run_id, node_id, source", "source_seq desc")
    whole = work.now("route").unionByName(way).selectExpr("*", f"{newest} as age")
    work.put("route", whole.where("age = 1").select(ROUTE.columns))
