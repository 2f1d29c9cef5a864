"""Routing information of protocol ``delta`` at a quiescent end: Eq. (1), the two levels of consistency (4.3), Lemma 4.

They hold when nothing is under way, so they judge only runs that are quiescent at the end, by their last state; see
`members` for the nodes. A node is *near* a subscription when it lies within δ+1 hops of the subscriber, else *far* from
it. That the subscriber, or a node on the way, is down changes only its ``responsible``: the closest node that is up.

Subscriptions that were confirmed are due, and those that have ended are due to be gone. A subscriber that crashed
before the confirmation leaves that undecided, and a join whose node or join point crashed may stay unfinished: these
are not judged.

Level 2 says of a far node N and subscriber S that N's entry names P(N, S)[δ+1]. Paths that long would be all pairs of
nodes, so every entry is judged by δ-paths and by the entry of its next hop B = ``responsible``, k = d(N, B) hops away:

1. the entry of N names a node δ+1 hops away, and B is the closest node towards it that is up;
2. B's entry does not lead back towards N;
3. N's entry names P(B, from_B)[δ+1-k].

On a tree that is the same. By 2, the next hops from N never turn back, so they run along a path of the tree; it can end
only where an entry is via its own node, which Level 1 and rule R1 leave to S, or where δ+1 nodes in a row are down. So
they are P(N, S), and B lies on it. If d(B, S) <= δ+1, from_B = S by Level 1; farther away it is P(B, S)[δ+1] by
induction over the distance. In both cases P(B, from_B)[δ+1-k] is the node δ+1 hops from N on P(N, S).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines.contract.audit import FOUND, Evidence, aggregated
from pipelines.protocols.delta.audits.members import MEMBER, NO_SOURCE, NODE, judged, judged_paths, violating

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ENTRY = [*NODE, "subscription_id"]
_WRONG_WAY = """case
  when not (entry_responsible <=> responsible) then
    concat(' has an entry via ', entry_responsible_name, ', the way is via ', responsible_name)
  else concat(' has an entry ', coalesce(cast(entry_distance as string), '?'), ' hops off by ', entry_hop_name,
    ', the way is ', distance, ' hops by ', first_hop_name) end"""
_RIGHT_WAY = "entry_responsible <=> responsible and entry_hop <=> first_hop and entry_distance <=> distance"
_WAY_NODES = ("entry_responsible", "responsible", "entry_hop", "first_hop")
_UNFINISHED_JOIN = f"""
select distinct l.run_id, least(l.src, l.dst) as a, greatest(l.src, l.dst) as b
from link l
join node_recovery c on c.run_id = l.run_id and c.node_id = l.src
left join ({MEMBER}) s on s.run_id = l.run_id and s.node_id = l.src
left join ({MEMBER}) d on d.run_id = l.run_id and d.node_id = l.dst
where s.run_id is null or d.run_id is null
"""  # noqa: S608 - built of constants
"""Links of nodes that have not joined, with an end that crashed: the join may have stopped half-way."""

_SUBSCRIPTION = """
select run_id, subscription_id, subscriber, unsubscribed_round is null as is_live
from subscription
where ended_round is not null or (confirmed_round is not null and unsubscribed_round is null)
"""
"""Subscriptions that are due, or due to be gone."""

_RECOVERED = """
select run_id, node_id, max(operational_round) as operational_round
from node_recovery
where recovering_rounds is not null
group by run_id, node_id
"""
"""When the nodes that recovered were OPERATIONAL again, the last time."""


def join_consistency(evidence: Evidence) -> DataFrame:
    """Eq. (1): TOP_N holds exactly the valid links with both ends within δ+1 of N, unmarked."""
    return evidence.keep("join_consistency", lambda: _wrong_links(evidence))


def _wrong_links(evidence: Evidence) -> DataFrame:
    """On a tree, the links with both ends in reach are the last links of the paths to the nodes in reach."""
    last = "element_at(path, -2)"
    expected = judged_paths(evidence).where("distance > 0").selectExpr(
        *NODE, f"least({last}, target) as a", f"greatest({last}, target) as b", "1 as expected", "0 as held",
        "0 as marked",
    )  # fmt: skip
    unfinished = evidence.sql(_UNFINISHED_JOIN).selectExpr("run_id", "a", "b", "true as is_unfinished")
    held = (
        evidence.table("state_topology")
        .join(judged(evidence), NODE)
        .join(unfinished, ["run_id", "a", "b"], "left")
        .where("is_unfinished is null")
        .selectExpr(*NODE, "a", "b", "0 as expected", "1 as held", "cast(is_marked as int) as marked")
    )
    counts = (f"sum({name}) as n_{name}" for name in ("expected", "held", "marked"))
    found = aggregated(expected.unionByName(held), [*NODE, "a", "b"], *counts)
    wrong = found.where("n_expected <> n_held or n_marked > 0")
    detail = """concat('TOP ', case
      when n_held = 0 then 'lacks'
      when n_expected = 0 then 'holds, beyond its reach,'
      when n_held > 1 then 'holds more than once'
      else 'still marks' end, ' the link ', a_name, '-', b_name)"""
    return violating(evidence, wrong, detail, "a", "b")


def _near(evidence: Evidence) -> DataFrame:
    """Returns the nodes near a subscription: entry key, ``subscriber, is_live, distance, first_hop, responsible``."""
    subscription = evidence.sql(_SUBSCRIPTION).withColumnRenamed("subscriber", "target")
    return (
        judged_paths(evidence)
        .join(subscription, ["run_id", "target"])
        .selectExpr(*_ENTRY, "target as subscriber", "is_live", "distance", "first_hop", "responsible")
    )


def _entries(evidence: Evidence) -> DataFrame:
    """SUBS_SET_N: entry key, ``delta, origin, entry_distance, entry_hop, entry_responsible, n_entries``."""
    copies = "count(1) over (partition by run_id, node_id, subscription_id) as n_entries"
    return evidence.table("state_routing_entry").join(judged(evidence), NODE).selectExpr(
        *_ENTRY, "delta", "origin", "distance as entry_distance", "first_hop as entry_hop",
        "responsible as entry_responsible", copies
    )  # fmt: skip


def level_1(evidence: Evidence) -> DataFrame:
    """A near node has one entry of a live subscription, from the subscriber by the way to it; none of an ended one."""
    return evidence.keep("level_1", lambda: _wrong_near_entries(evidence))


def _wrong_near_entries(evidence: Evidence) -> DataFrame:
    wrong = (
        _near(evidence)
        .join(_entries(evidence), _ENTRY, "left")
        .where(
            "case when not is_live then n_entries is not null"
            f" else not (n_entries <=> 1 and origin <=> subscriber and {_RIGHT_WAY}) end"
        )
    )
    detail = f"""concat('subscription ', subscription_id, ' of ', subscriber_name, case
      when not is_live then ' has ended and still has an entry'
      when n_entries is null then ' has no entry'
      when n_entries > 1 then concat(' has ', n_entries, ' entries')
      when not (origin <=> subscriber) then concat(' has an entry from ', origin_name)
      else {_WRONG_WAY} end)"""
    return violating(evidence, wrong, detail, "subscriber", "origin", *_WAY_NODES).distinct()


def _far_counts(evidence: Evidence) -> DataFrame:
    """Far nodes without exactly one entry of a live subscription, or with any of one that has ended or never was."""
    key = [*_ENTRY, "subscriber"]
    subscription = evidence.table("subscription").select("run_id", "subscription_id", "subscriber")
    live = evidence.sql(_SUBSCRIPTION).where("is_live").drop("is_live")
    undecided = subscription.join(evidence.sql(_SUBSCRIPTION), ["run_id", "subscription_id"], "left_anti")
    required = judged(evidence).join(live, "run_id").selectExpr(*key, "1 as required", "0 as held")
    held = (
        _entries(evidence)
        .join(undecided.select("run_id", "subscription_id"), ["run_id", "subscription_id"], "left_anti")
        .join(subscription, ["run_id", "subscription_id"], "left")
        .selectExpr(*key, "0 as required", "1 as held")
    )
    wrong = (
        aggregated(required.unionByName(held), key, "sum(required) as n_required", "sum(held) as n_held")
        .where("n_required <> n_held")
        .join(_near(evidence).select(_ENTRY), _ENTRY, "left_anti")
    )
    detail = """concat('subscription ', subscription_id, case
      when subscriber is null then ' was never issued and has an entry'
      when n_held = 0 then concat(' of ', subscriber_name, ' has no entry')
      when n_required = 0 then concat(' of ', subscriber_name, ' has ended and still has an entry')
      else concat(' of ', subscriber_name, ' has ', n_held, ' entries') end)"""
    return violating(evidence, wrong, detail, "subscriber")


def _judged_entries(evidence: Evidence) -> DataFrame:
    """The entries of live subscriptions that are alone with their key, judged by δ-paths of their own node.

    Returns:
        The columns of `_entries`, ``subscriber, is_near``; the way to the origin, null beyond δ+1: ``distance, path,
        first_hop, responsible``; ``is_right``: Level 1 for near nodes, rule R1 for far ones.
    """
    live = evidence.sql(_SUBSCRIPTION).where("is_live").drop("is_live")
    to_origin = judged_paths(evidence).selectExpr(
        *NODE, "target as origin", "distance", "path", "first_hop", "responsible"
    )  # fmt: skip
    near = _near(evidence).selectExpr(*_ENTRY, "true as near")
    right = f"case when near then origin = subscriber else distance = delta + 1 end and {_RIGHT_WAY}"
    return (
        _entries(evidence)
        .where("n_entries = 1")
        .join(live, ["run_id", "subscription_id"])
        .join(to_origin, [*NODE, "origin"], "left")
        .join(near, _ENTRY, "left")
        .selectExpr(
            *_ENTRY, "delta", "subscriber", "origin", "entry_distance", "entry_hop", "entry_responsible", "distance",
            "path",
            "first_hop", "responsible", "coalesce(near, false) as is_near", f"coalesce({right}, false) as is_right",
        )
    )  # fmt: skip


def _far_origins(evidence: Evidence, entry: DataFrame) -> DataFrame:
    """Rule 1: far entries that do not name a node δ+1 hops away, or not with the way to it."""
    wrong = entry.where("not is_near and not is_right")
    detail = f"""concat('subscription ', subscription_id, ' of ', subscriber_name, case
      when distance <=> delta + 1 then {_WRONG_WAY}
      else concat(' has an entry from ', origin_name, ', not ', delta + 1, ' hops away') end)"""
    return violating(evidence, wrong, detail, "subscriber", "origin", *_WAY_NODES)


def _against_next_hop(evidence: Evidence, entry: DataFrame) -> DataFrame:
    """Rules 2 and 3: far entries that disagree with their next hop's, of a chain of them the one nearest to S.

    An entry is not held against a next hop whose own is wrong: that one is reported.
    """
    next_hop = entry.where("is_right").selectExpr(
        "run_id", "node_id as responsible", "subscription_id", "path as next_path", "first_hop as next_first_hop"
    )
    hops = "cast(array_position(path, responsible) as int) - 1"
    wrong = (
        entry.where("not is_near and is_right")
        .selectExpr(*_ENTRY, "delta", "subscriber", "origin", "responsible", "path", f"{hops} as hops")
        .join(next_hop, ["run_id", "responsible", "subscription_id"])
        .selectExpr(
            *_ENTRY, "subscriber", "origin", "responsible", "next_first_hop = get(path, hops - 1) as turns_back",
            "get(next_path, delta + 1 - hops) as wanted",
        )
        .where("turns_back or origin <> wanted")
    )  # fmt: skip
    disagreeing = evidence.keep("disagreeing", lambda: wrong)
    behind = disagreeing.selectExpr("run_id", "node_id as responsible", "subscription_id", "true as is_behind")
    first = disagreeing.join(behind, ["run_id", "responsible", "subscription_id"], "left").where(
        "turns_back or is_behind is null"
    )
    detail = """concat('subscription ', subscription_id, ' of ', subscriber_name, case
      when turns_back then concat(' has an entry via ', responsible_name, ', whose own turns back')
      else concat(' has an entry from ', origin_name, ', that of ', responsible_name, ' asks for ', wanted_name) end)"""
    return violating(evidence, first, detail, "subscriber", "origin", "responsible", "wanted")


def level_2(evidence: Evidence) -> DataFrame:
    """A far node has one entry of a live subscription, from the node δ+1 hops towards S; none of an ended one."""
    return evidence.keep("level_2", lambda: _wrong_far_entries(evidence))


def _wrong_far_entries(evidence: Evidence) -> DataFrame:
    entry = evidence.keep("entry", lambda: _judged_entries(evidence))
    entries = _far_origins(evidence, entry).unionByName(_against_next_hop(evidence, entry))
    return _far_counts(evidence).unionByName(entries)


def recovered_state(evidence: Evidence) -> DataFrame:
    """Lemma 4: Eq. (1) and both levels hold at nodes that recovered; ``round`` is when they were OPERATIONAL again."""
    broken = join_consistency(evidence).unionByName(level_1(evidence)).unionByName(level_2(evidence))
    return (
        broken.drop("round")
        .join(evidence.sql(_RECOVERED).withColumnRenamed("operational_round", "round"), NODE)
        .selectExpr(*NODE, "round", *NO_SOURCE, "concat('recovered in round ', round, ': ', detail) as detail")
        .select(*FOUND)
    )
