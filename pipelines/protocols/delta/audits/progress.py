"""What messages of protocol ``delta`` must do: go past nobody who could take them, and leave nothing behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines.contract.audit import FOUND, Evidence, aggregated
from pipelines.protocols.delta.audits.members import NO_SOURCE, NODE, judged, paths, quiescent, unreachable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_MULTICAST = ("J", "SUB", "UNSUB", "PUB", "REJOIN")
_FAR_MESSAGE = f"""
select m.run_id, m.kind, m.src, m.dst, m.sent_round, m.source, m.source_seq
from sent_message m
left join link l on l.run_id = m.run_id and l.src = m.src and l.dst = m.dst
where m.kind in {_MULTICAST} and m.src <> m.dst and l.run_id is null
  and get_json_object(m.body, '$.guide') is null
"""  # noqa: S608 - built of constants
"""Plain multicast messages over a bypass; Guided ones answer a SynRequest, so nodes in between may have recovered."""

_ABSENT = """
with rejoin as (
  select run_id, src as node_id, source_seq, min(sent_round) as sent_round
  from sent_message
  where kind = 'REJOIN' and src = source
  group by run_id, src, source_seq
)
select n.run_id, n.node_id, n.crash_round, coalesce(min(r.sent_round), max(n.end_round)) as back_round
from node_recovery n
left join rejoin r on r.run_id = n.run_id and r.node_id = n.node_id
  and r.sent_round >= n.recovery_round and (n.end_round is null or r.sent_round <= n.end_round)
group by n.run_id, n.node_id, n.crash_round
"""
"""When a node was not OPERATIONAL*: from its crash to before its first REJOIN, if it had one to send, after it."""


def no_operational_skipped(evidence: Evidence) -> DataFrame:
    """Key Corollary: a message from A to B skips no node between them that is OPERATIONAL*.

    A node is OPERATIONAL* from the round of its first REJOIN (A.2). The sender can know this: before that round the
    closest node on the way to A has answered it, and so has each recovered node in between.
    """
    between = (
        evidence.sql(_FAR_MESSAGE)
        .join(paths(evidence).selectExpr("run_id", "node_id as src", "target as dst", "path"), ["run_id", "src", "dst"])
        .selectExpr("*", "explode(slice(path, 2, size(path) - 2)) as node_id")
    )
    absent = evidence.sql(_ABSENT).selectExpr(*NODE, "crash_round", "back_round")
    was_absent = "max(crash_round <= sent_round and coalesce(back_round > sent_round, true))"
    message = [*NODE, "kind", "src", "dst", "sent_round", "source", "source_seq"]
    passed = aggregated(between.join(absent, NODE, "left"), message, f"{was_absent} as was_absent")
    skipped = passed.where("not coalesce(was_absent, false)")
    name = evidence.table("node").select("run_id", "node_id", "name")
    for end in ("src", "dst"):
        skipped = skipped.join(name.toDF("run_id", end, f"{end}_name"), ["run_id", end])
    detail = "concat(kind, ' from ', src_name, ' to ', dst_name, ' went past it') as detail"
    return skipped.selectExpr(*NODE, "sent_round as round", "source", "source_seq", detail).select(*FOUND)


def nothing_pending(evidence: Evidence) -> DataFrame:
    """At a quiescent end nobody waits for what only a message can bring.

    - No ProcessingList holds a message: each was confirmed by all its recipients (Alg. 1, line 30).
    - No node recovers, and no synchronisation is open (Alg. 5, line 8); but for those that join at a node that is down
      for good, or has not joined itself.
    - No peer still has to answer a request (Alg. 4).
    - No call waits at a member that is OPERATIONAL, and nobody waits there to join.
    """
    waiting = _waiting_for_peers(evidence).unionByName(_waiting_at_members(evidence))
    return _unconfirmed(evidence).unionByName(waiting).unionByName(_not_back(evidence)).select(*FOUND)


def _unconfirmed(evidence: Evidence) -> DataFrame:
    message = [*NODE, "source", "source_seq", "kind", "round"]
    pending = evidence.table("state_processing").join(quiescent(evidence), "run_id")
    detail = "concat(kind, ' of round ', round, ' still waits for ', n_recipients, ' recipients') as detail"
    recipients = "count_if(not coalesce(is_confirmed, false)) as n_recipients"
    return aggregated(pending, message, recipients).selectExpr(*message, detail).select(*FOUND)


def _waiting_for_peers(evidence: Evidence) -> DataFrame:
    synch = evidence.table("state_synch").where("not is_answered")
    request = evidence.table("state_syn_request")
    peer = evidence.table("state_peer").where("status = 'WAITING'")
    rows = (
        synch.selectExpr(*NODE, "peer", "'still waits for routing information from ' as what")
        .unionByName(request.selectExpr(*NODE, "peer", "'still owes routing information to ' as what"))
        .unionByName(peer.selectExpr(*NODE, "peer", "'still waits for an answer from ' as what"))
    )
    return _told(evidence, rows.join(quiescent(evidence), "run_id"), "concat(what, peer_name)")


def _waiting_at_members(evidence: Evidence) -> DataFrame:
    node = judged(evidence).select(NODE)
    call = evidence.table("state_call").selectExpr(
        *NODE, "node_id as peer", "concat('still holds back a call: ', kind) as what"
    )
    request = evidence.table("state_join_request").selectExpr(
        *NODE, "joiner as peer", "'still has to answer the join of ' as what"
    )
    detail = "concat(what, case when peer = node_id then '' else peer_name end)"
    return _told(evidence, call.unionByName(request).join(node, NODE), detail)


def _told(evidence: Evidence, rows: DataFrame, detail: str) -> DataFrame:
    name = evidence.table("node").selectExpr("run_id", "node_id as peer", "name as peer_name")
    named = rows.join(name, ["run_id", "peer"])
    return named.selectExpr(*NODE, "cast(null as bigint) as round", *NO_SOURCE, f"{detail} as detail").select(*FOUND)


def _not_back(evidence: Evidence) -> DataFrame:
    stuck = evidence.table("node_recovery").where("recovery_round is not null and end_round is null")
    return (
        stuck.join(quiescent(evidence), "run_id")
        .join(unreachable(evidence), NODE, "left_anti")
        .selectExpr(*NODE, "recovery_round as round", *NO_SOURCE, "'came back and is not OPERATIONAL yet' as detail")
        .select(*FOUND)
    )
