"""Guarantees of protocol ``delta`` alone: Eq. (1), the two levels of consistency (4.3), an empty ProcessingList.

They hold when nothing is under way, so they judge only runs that are quiet at the end, by the state as it is then. A
VALID_JOINED node is *near* a subscription when it lies within δ+1 hops of the subscriber, else *far* from it.

Level 2 says of a far node N and subscriber S that N's entry names P(N, S)[δ+1]. Paths that long would be all pairs of
nodes, so every entry is judged by δ-paths and by the entry of its next hop B = ``via``:

1. the entry of N names a node δ+1 hops away, and B is the first hop towards it;
2. B's entry is not ``via`` N;
3. N's entry names P(B, from_B)[δ].

On a tree that is the same. By 2, the next hops from N never turn back, so they run along a path of the tree; it can end
only where an entry is via its own node, which Level 1 and rule 1 leave to S. So they are P(N, S), and B lies on it.
If d(B, S) = δ+1, from_B = S by Level 1; farther away it is P(B, S)[δ+1] by induction over the distance. In both cases
P(B, from_B)[δ] is the node δ+1 hops from N on P(N, S).
"""

from __future__ import annotations

from pyspark.sql import DataFrame, functions as F

from pipelines.audits.base import FOUND, IN_FLIGHT_RUN, Audit, Evidence

_DELTA = "protocol.delta"
_NODE = ["run_id", "node_id"]
_ENTRY = [*_NODE, "subscription_id"]
_NO_SOURCE = ("cast(null as bigint) as source", "cast(null as bigint) as source_seq")

QUIET_RUN = f"""
select r.run_id, cast(get_json_object(r.parameters, "$['{_DELTA}']") as int) as delta
from run r left join ({IN_FLIGHT_RUN}) busy on busy.run_id = r.run_id
where busy.run_id is null
"""  # noqa: S608 - built of constants
"""Runs with nothing in flight at the end, and their δ."""

VALID_NODE = """
select run_id, node_id from node_status group by run_id, node_id having max_by(status, round) = 'VALID_JOINED'
"""


def _quiet(evidence: Evidence) -> DataFrame:
    return evidence.sql(QUIET_RUN)


def _valid_nodes(evidence: Evidence) -> DataFrame:
    """VALID_JOINED nodes of quiet runs: ``run_id, node_id, delta``."""
    return evidence.sql(VALID_NODE).join(_quiet(evidence), "run_id").select(*_NODE, "delta")


def _paths(evidence: Evidence) -> DataFrame:
    """P(N, X) up to δ+1 hops over valid links, N itself included: as `delta_paths`, and ``delta``."""
    return evidence.keep("paths", lambda: _find_paths(evidence))


def _find_paths(evidence: Evidence) -> DataFrame:
    valid = _valid_nodes(evidence)
    link = evidence.table("link").select("run_id", "src", "dst")
    for end in ("src", "dst"):
        link = link.join(valid.selectExpr("run_id", f"node_id as {end}"), ["run_id", end])
    reach = 1 + max(int(parameters[_DELTA]) for parameters in evidence.parameters)
    own = valid.selectExpr(
        *_NODE, "node_id as target", "0 as distance", "array(node_id) as path", "node_id as via", "delta"
    )
    found = evidence.paths(link.select("run_id", "src", "dst"), reach).join(_quiet(evidence), "run_id")
    return own.unionByName(found.where("distance > 0 and distance <= delta + 1").select(own.columns))


def _violating(evidence: Evidence, rows: DataFrame, detail: str, *ids: str) -> DataFrame:
    """Gives the rows of an audit; for each of the ids, columns of nodes, the detail may use the name, ``<id>_name``."""
    name = evidence.table("node").select("run_id", "node_id", "name")
    for column in ids:
        rows = rows.join(name.selectExpr("run_id", f"node_id as {column}", "name"), ["run_id", column], "left")
        rows = rows.selectExpr("*", f"coalesce(name, cast({column} as string), 'nowhere') as {column}_name").drop(
            "name"
        )
    return rows.selectExpr(*_NODE, "cast(null as bigint) as round", *_NO_SOURCE, f"{detail} as detail").select(*FOUND)


def join_consistency(evidence: Evidence) -> DataFrame:
    """Eq. (1): TOP_N holds exactly the valid links with both ends within δ+1 of N, unmarked.

    On a tree, the links with both ends in reach are the last links of the paths to the nodes in reach.
    """
    last = "element_at(path, -2)"
    expected = _paths(evidence).where("distance > 0").selectExpr(
        *_NODE, f"least({last}, target) as a", f"greatest({last}, target) as b", "1 as expected", "0 as held",
        "0 as marked",
    )  # fmt: skip
    held = (
        evidence.table("state_topology")
        .join(_valid_nodes(evidence), _NODE)
        .selectExpr(*_NODE, "a", "b", "0 as expected", "1 as held", "cast(is_marked as int) as marked")
    )
    counts = (F.expr(f"sum({name}) as n_{name}") for name in ("expected", "held", "marked"))
    wrong = (
        expected.unionByName(held)
        .groupBy(*_NODE, "a", "b")
        .agg(*counts)
        .where("n_expected <> n_held or n_marked > 0")
    )  # fmt: skip
    detail = """concat('TOP ', case
      when n_held = 0 then 'lacks'
      when n_expected = 0 then 'holds, beyond its reach,'
      when n_held > 1 then 'holds more than once'
      else 'still marks' end, ' the link ', a_name, '-', b_name)"""
    return _violating(evidence, wrong, detail, "a", "b")


def _judged_subscriptions(evidence: Evidence) -> DataFrame:
    """Subscriptions that were confirmed or have ended: ``run_id, subscription_id, subscriber, is_live``."""
    return (
        evidence.table("subscription")
        .where("confirmed_round is not null or ended_round is not null")
        .selectExpr("run_id", "subscription_id", "subscriber", "ended_round is null as is_live")
    )


def _near(evidence: Evidence) -> DataFrame:
    """The nodes near a subscription: entry key, ``subscriber, is_live, first_hop``."""
    subscription = _judged_subscriptions(evidence).withColumnRenamed("subscriber", "target")
    return (
        _paths(evidence)
        .join(subscription, ["run_id", "target"])
        .selectExpr(*_ENTRY, "target as subscriber", "is_live", "via as first_hop")
    )


def _entries(evidence: Evidence) -> DataFrame:
    """SUBS_SET_N of VALID_JOINED nodes in quiet runs: entry key, ``origin, via, delta``, ``n_entries`` of that key."""
    copies = "count(1) over (partition by run_id, node_id, subscription_id) as n_entries"
    entry = evidence.table("state_subscription").join(_valid_nodes(evidence), _NODE)
    return entry.selectExpr(*_ENTRY, "origin", "via", "delta", copies)


def level_1(evidence: Evidence) -> DataFrame:
    """A near node has one entry of a live subscription, from the subscriber via the first hop; none of an ended one."""
    wrong = (
        _near(evidence)
        .join(_entries(evidence), _ENTRY, "left")
        .where(
            "case when not is_live then n_entries is not null"
            " else not (n_entries <=> 1 and origin <=> subscriber and via <=> first_hop) end"
        )
    )
    detail = """concat('subscription ', subscription_id, ' of ', subscriber_name, case
      when not is_live then ' has ended and still has an entry'
      when n_entries is null then ' has no entry'
      when n_entries > 1 then concat(' has ', n_entries, ' entries')
      when not (origin <=> subscriber) then concat(' has an entry from ', origin_name)
      else concat(' has an entry via ', via_name, ', the way is via ', first_hop_name) end)"""
    return _violating(evidence, wrong, detail, "subscriber", "origin", "via", "first_hop").distinct()


def _far_counts(evidence: Evidence) -> DataFrame:
    """Far nodes without exactly one entry of a live subscription, or with any of one that has ended or never was."""
    key = [*_ENTRY, "subscriber"]
    subscription = evidence.table("subscription").select("run_id", "subscription_id", "subscriber")
    live = _judged_subscriptions(evidence).where("is_live").drop("is_live")
    undecided = subscription.join(_judged_subscriptions(evidence), ["run_id", "subscription_id"], "left_anti")
    required = _valid_nodes(evidence).join(live, "run_id").selectExpr(*key, "1 as required", "0 as held")
    held = (
        _entries(evidence)
        .join(undecided.select("run_id", "subscription_id"), ["run_id", "subscription_id"], "left_anti")
        .join(subscription, ["run_id", "subscription_id"], "left")
        .selectExpr(*key, "0 as required", "1 as held")
    )
    wrong = (
        required.unionByName(held)
        .groupBy(key)
        .agg(F.expr("sum(required) as n_required"), F.expr("sum(held) as n_held"))
        .where("n_required <> n_held")
        .join(_near(evidence).select(_ENTRY), _ENTRY, "left_anti")
    )
    detail = """concat('subscription ', subscription_id, case
      when subscriber is null then ' was never issued and has an entry'
      when n_held = 0 then concat(' of ', subscriber_name, ' has no entry')
      when n_required = 0 then concat(' of ', subscriber_name, ' has ended and still has an entry')
      else concat(' of ', subscriber_name, ' has ', n_held, ' entries') end)"""
    return _violating(evidence, wrong, detail, "subscriber")


def _judged_entries(evidence: Evidence) -> DataFrame:
    """The entries of live subscriptions that are alone with their key, judged by δ-paths of their own node.

    Returns:
        Entry key, ``subscriber, origin, via, is_near``; ``first_hop`` towards the origin and its ``distance``, null
        beyond δ+1; ``is_right``: Level 1 for near nodes, rule 1 for far ones; ``next_origin``: P(N, origin)[δ].
    """
    live = _judged_subscriptions(evidence).where("is_live").drop("is_live")
    to_origin = _paths(evidence).selectExpr(*_NODE, "target as origin", "distance", "via as first_hop", "path")
    near = _near(evidence).selectExpr(*_ENTRY, "true as near")
    right = "case when near then origin = subscriber else distance = delta + 1 end and via = first_hop"
    return (
        _entries(evidence)
        .where("n_entries = 1")
        .join(live, ["run_id", "subscription_id"])
        .join(to_origin, [*_NODE, "origin"], "left")
        .join(near, _ENTRY, "left")
        .selectExpr(
            *_ENTRY, "subscriber", "origin", "via", "delta", "coalesce(near, false) as is_near", "first_hop",
            "distance", f"coalesce({right}, false) as is_right", "get(path, delta) as next_origin",
        )
    )  # fmt: skip


def _far_origins(evidence: Evidence, judged: DataFrame) -> DataFrame:
    """Rule 1: far entries that do not name a node δ+1 hops away, or not with the first hop towards it."""
    wrong = judged.where("not is_near and not is_right")
    detail = """concat('subscription ', subscription_id, ' of ', subscriber_name, case
      when distance <=> delta + 1
      then concat(' has an entry via ', via_name, ', the way is via ', first_hop_name)
      else concat(' has an entry from ', origin_name, ', not ', delta + 1, ' hops away') end)"""
    return _violating(evidence, wrong, detail, "subscriber", "origin", "via", "first_hop")


def _against_next_hop(evidence: Evidence, judged: DataFrame) -> DataFrame:
    """Rules 2 and 3: far entries that disagree with their next hop's, of a chain of them the one nearest to S.

    An entry is not held against a next hop whose own is wrong: that one is reported.
    """
    next_hop = judged.where("is_right").selectExpr(
        "run_id", "node_id as via", "subscription_id", "via as next_via", "next_origin as wanted"
    )
    wrong = (
        judged.where("not is_near and is_right")
        .drop("next_origin")
        .join(next_hop, ["run_id", "via", "subscription_id"])
        .selectExpr("*", "next_via = node_id as turns_back")
        .where("turns_back or origin <> wanted")
    )
    disagreeing = evidence.keep("disagreeing", lambda: wrong)
    behind = disagreeing.selectExpr("run_id", "node_id as via", "subscription_id", "true as is_behind")
    first = disagreeing.join(behind, ["run_id", "via", "subscription_id"], "left").where(
        "turns_back or is_behind is null"
    )
    detail = """concat('subscription ', subscription_id, ' of ', subscriber_name, case
      when turns_back then concat(' has an entry via ', via_name, ', whose own turns back')
      else concat(' has an entry from ', origin_name, ', that of ', via_name, ' asks for ', wanted_name) end)"""
    return _violating(evidence, first, detail, "subscriber", "origin", "via", "wanted")


def level_2(evidence: Evidence) -> DataFrame:
    """A far node has one entry of a live subscription, from the node δ+1 hops towards S; none of an ended one."""
    judged = evidence.keep("judged", lambda: _judged_entries(evidence))
    entries = _far_origins(evidence, judged).unionByName(_against_next_hop(evidence, judged))
    return _far_counts(evidence).unionByName(entries)


def nothing_pending(evidence: Evidence) -> DataFrame:
    """At a quiet end no ProcessingList holds a message: each was confirmed by all its recipients (Alg. 1, line 30)."""
    message = [*_NODE, "source", "source_seq", "kind", "round"]
    pending = evidence.table("state_processing").join(_quiet(evidence), "run_id").groupBy(message)
    detail = "concat(kind, ' of round ', round, ' still waits for ', n_recipients, ' recipients') as detail"
    return pending.agg(F.expr("count(1) as n_recipients")).selectExpr(*message, detail).select(*FOUND)


AUDITS: tuple[Audit, ...] = (
    Audit("join_consistency", "every node's view holds exactly the links within δ+1 hops (Eq. 1)", join_consistency),
    Audit("level_1", "within δ+1 hops of a subscriber, entries name the subscriber itself", level_1),
    Audit("level_2", "farther away, entries name the node δ+1 hops towards the subscriber", level_2),
    Audit("nothing_pending", "when nothing is in flight, no message waits for a confirmation", nothing_pending),
)
