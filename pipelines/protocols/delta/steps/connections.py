"""Connections, failure detectors, and bypasses (sections 4.3, 5 and 6; Algorithms 3, 4 and 6).

A node has a connection to the first incarnation of each neighbour without a row in relation ``peer``. When the peer of
a connection crashes, the node gets a DETECT after the detection delay (rules R9, R21 and R35).

The bypass of a failed peer M at a node N (rules R19, R21 and R24):

1. DETECT at N: relation ``peer`` gets M with status FAILED. Paths through M get another responsible node (relations
   ``path`` and ``routing_entry``). The *frontier* is the set of the first live nodes on paths through failed nodes. N
   sends CON_REQUEST to each node of the frontier that it has no connection to.
2. The next live node on the path becomes responsible for the recipients behind M (relation ``processing``).

The handshake of a node N with a node X (rules R20, R22 and R25):

1. N sends CON_REQUEST, or SYN_REQUEST while N recovers. Relation ``peer`` gets X with status WAITING.
2. The request at X: X adds N to ``peer`` and answers with STATUS.
3. STATUS at N: N resends the messages that waited for X, in ProcessingList order (`copies.held_back`).

A message for an earlier incarnation of its receiver is dropped.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, functions as F

from pipelines.contract.rows import NODE, row_number
from pipelines.protocols.delta.steps.routing import CLOSEST, NEAREST_LIVE, peer_lists
from pipelines.protocols.delta.tables import FAULT_TRIGGER, INBOX, LINKS, PEER, PROCESSING, to_send


def connected(path: DataFrame, peer: DataFrame, link: DataFrame) -> DataFrame:
    """Returns all connections: ``run_id, node_id, peer, incarnation, latency_rounds``."""
    neighbour = path.where("distance = 1").selectExpr(*NODE, "target as peer")
    usual = neighbour.join(peer.selectExpr(*NODE, "peer"), [*NODE, "peer"], "left_anti")
    latency = link.selectExpr("run_id", "src as node_id", "dst as peer", "latency_rounds")
    columns = [*NODE, "peer", "incarnation", "latency_rounds"]
    return (
        usual.join(latency, [*NODE, "peer"])
        .selectExpr(*NODE, "peer", "cast(0 as bigint) as incarnation", "latency_rounds")
        .unionByName(peer.where("status <> 'FAILED'").selectExpr(*columns))
    )


def broken_connections(connection: DataFrame, crashed: DataFrame, path: DataFrame, link: DataFrame) -> DataFrame:
    """Returns the connections to crashed peers: ``run_id, node_id, peer, ended, latency_rounds, round``.

    A null incarnation in `connection` (see `connected`) stands for the newest incarnation of the peer. `crashed` has
    the ended incarnations: ``run_id, node_id, incarnation, round`` (this round), and ``is_down``, whether the node is
    still down. ``latency_rounds`` is the largest latency of the connection, and of the link from the peer. Without a
    link, both directions of the path to the peer take its place.
    """
    down = crashed.selectExpr("run_id", "node_id as peer", "incarnation as ended", "round", "is_down")
    broken = (
        connection.join(down.hint("shuffle_hash"), ["run_id", "peer"])
        .where("incarnation <= ended or (incarnation is null and is_down)")
        .selectExpr(*NODE, "peer", "ended", "latency_rounds", "round")
    )
    back = link.selectExpr("run_id", "src as dst", "dst as src", "latency_rounds")
    ends = broken.selectExpr(*NODE, "peer").distinct()
    ways = path.selectExpr(*NODE, "target as peer", "path").join(ends, [*NODE, "peer"])
    both = path_latencies(ways, back).unionByName(path_latencies(ways, link))
    over_path = both.groupBy(*NODE, "peer").agg(F.max("latency_rounds").alias("path_rounds"))
    direct = back.selectExpr("run_id", "src as node_id", "dst as peer", "latency_rounds as link_rounds")
    return (
        broken.join(direct, [*NODE, "peer"], "left")
        .join(over_path, [*NODE, "peer"], "left")
        .withColumn("latency_rounds", F.expr("greatest(latency_rounds, coalesce(link_rounds, path_rounds, 0))"))
        .drop("link_rounds", "path_rounds")
    )


def crash_reports(broken: DataFrame, status: DataFrame, setting: DataFrame) -> DataFrame:
    """Returns DETECT messages of nodes to themselves, one per broken connection and round (rule R21).

    A DETECT arrives after the detection delay, and not before the last messages of the crashed peer.
    """
    newest = (f"max({name}) as {name}" for name in ("ended", "latency_rounds", "round"))
    own = status.selectExpr(*NODE, "incarnation as for_incarnation")
    last = broken.groupBy(*NODE, "peer").agg(*map(F.expr, newest)).join(own, NODE, "left")
    return to_send(
        last.join(setting.selectExpr("run_id", "detection_rounds"), "run_id"), trigger=FAULT_TRIGGER, rank="peer",
        kind="'DETECT'", dst="node_id", peer="peer", incarnation="ended", for_incarnation="for_incarnation",
        latency_rounds="greatest(cast(detection_rounds as bigint), latency_rounds)",
    )  # fmt: skip


def fresh_peers(before: DataFrame, after: DataFrame) -> DataFrame:
    """Returns the connections that a round opens. `before` and `after` are versions of relation ``peer``."""
    made = after.where("status <> 'FAILED'")
    old = before.selectExpr(*NODE, "peer", "coalesce(incarnation, -1) as known", "true as is_old")
    known = made.selectExpr("*", "coalesce(incarnation, -1) as known").join(old, [*NODE, "peer", "known"], "left")
    return known.where("is_old is null").selectExpr(*PEER.columns)


def failures(inbox: DataFrame, connection: DataFrame) -> DataFrame:
    """Returns the failures that DETECT messages report: ``run_id, node_id, peer, round, incarnation``.

    Ignores a report whose incarnation is older than the incarnation of the connection.
    """
    report = inbox.where("kind = 'DETECT'").selectExpr(
        "run_id", "dst as node_id", "peer", "incarnation as ended", "due_round as round"
    )
    return (
        report.join(connection.selectExpr(*NODE, "peer", "incarnation"), [*NODE, "peer"])
        .where("incarnation is null or incarnation <= ended")
        .groupBy(*NODE, "peer", "round")
        .agg({"ended": "max"})
        .toDF(*NODE, "peer", "round", "incarnation")
    )


def detached_peers(inbox: DataFrame, peer: DataFrame) -> DataFrame:
    """Returns the senders of STATUS DETACHED as failures. No other node is reachable through a DETACHED node.

    Ignores a STATUS that the node's answer to the JOIN_REQUEST of the sender has crossed.
    """
    told = inbox.where("kind = 'STATUS' and status = 'DETACHED'").selectExpr(
        "run_id", "dst as node_id", "src as peer", "due_round as round", "incarnation"
    )
    answered = peer.where("status = 'OPERATIONAL'").selectExpr(*NODE, "peer", "incarnation")
    return told.join(answered, [*NODE, "peer", "incarnation"], "left_anti")


def with_failures(peer: DataFrame, failure: DataFrame, path: DataFrame) -> DataFrame:
    """Returns relation ``peer`` with the peers in `failure` as FAILED (Algorithm 3, lines 2 to 4).

    If a live node B lies on the path from a node to its failed peer, the row of the peer is deleted instead: the
    recovered peer sends SYN_REQUEST to B only, and with a FAILED row the node would still bypass the recovered peer.
    """
    failed = failure.selectExpr(
        *NODE, "peer", "'FAILED' as status", "incarnation", "cast(null as bigint) as latency_rounds"
    )
    others = peer.join(failure.selectExpr(*NODE, "peer"), [*NODE, "peer"], "left_anti")
    whole = others.unionByName(failed.selectExpr(*PEER.columns))
    behind = (
        path.selectExpr(*NODE, "target as peer", "path")
        .join(failure.selectExpr(*NODE, "peer"), [*NODE, "peer"])
        .join(peer_lists(whole), NODE)
        .where(f"{NEAREST_LIVE} is not null")
        .selectExpr(*NODE, "peer")
    )
    return whole.join(behind, [*NODE, "peer"], "left_anti")


def frontier(path: DataFrame, failure: DataFrame, peer: DataFrame) -> DataFrame:
    """Returns the closest live nodes beyond failed peers (Alg. 3, line 5): ``run_id, node_id, peer, path, round``."""
    way = _ways_through(path, failure, peer).where("distance > 1")
    return way.where(f"{NEAREST_LIVE} = target").selectExpr(*NODE, "target as peer", "path", "round").distinct()


def stand_ins(path: DataFrame, lost: DataFrame, peer: DataFrame) -> DataFrame:
    """Returns the closest live nodes on the paths through the failed synchronisation points `lost`, as in `frontier`.

    The closest live node may lie before the failed synchronisation point: it was down when the synchronisation point
    was chosen, and has recovered since.
    """
    nearest = (
        _ways_through(path, lost, peer).where("distance > 0").selectExpr(*NODE, f"{NEAREST_LIVE} as peer", "round")
    )
    way = path.selectExpr(*NODE, "target as peer", "path")
    return nearest.distinct().join(way, [*NODE, "peer"]).selectExpr(*NODE, "peer", "path", "round")


def _ways_through(path: DataFrame, failure: DataFrame, peer: DataFrame) -> DataFrame:
    """Returns the paths through peers in `failure`, with ``round`` and the columns of `peer_lists`."""
    behind = failure.selectExpr(*NODE, "peer as behind", "round")
    return path.join(behind, NODE).where("array_contains(path, behind)").join(peer_lists(peer), NODE)


def orphans(processing: DataFrame, failure: DataFrame) -> DataFrame:
    """Returns the unconfirmed processing rows whose responsible node failed, with ``now_round``, the present round."""
    failed = failure.selectExpr(*NODE, "peer as responsible", "round as now_round")
    return processing.where("not is_confirmed").join(failed.hint("shuffle_hash"), [*NODE, "responsible"])


def rerouted(orphan: DataFrame, path: DataFrame, peer: DataFrame) -> DataFrame:
    """Sets the responsible node of each orphan to the next live node on the path, or null (Alg. 3, lines 20 to 22)."""
    seen = path.selectExpr(*NODE, "target as recipient", "path as seen_path")
    kept = [name for name in (*PROCESSING.columns, "now_round") if name not in {"responsible", "path"}]
    return (
        orphan.join(seen, [*NODE, "recipient"], "left")
        .join(peer_lists(peer), NODE, "left")
        .selectExpr(*kept, "path as told_path", "coalesce(path, seen_path) as path", "failed", "opened")
        .selectExpr(*kept, "told_path as path", f"{CLOSEST} as responsible")
    )


_LINK = ["run_id", "src", "dst"]


def for_this_incarnation(inbox: DataFrame, status: DataFrame) -> DataFrame:
    """Returns the inbox without messages for an earlier incarnation of their receiver (rule R25)."""
    now = status.selectExpr("run_id", "node_id as dst", "incarnation as own_incarnation")
    return inbox.join(now.hint("shuffle_hash"), ["run_id", "dst"], "left").where(
        "kind in ('CON_REQUEST', 'SYN_REQUEST', 'JOIN_REQUEST')"
        " or coalesce(for_incarnation, 0) = coalesce(own_incarnation, 0)"
    ).selectExpr(*INBOX)  # fmt: skip


def dropped(inbox: DataFrame, kept: DataFrame) -> DataFrame:
    """Returns the messages of `inbox` that are not in `kept`, as rows of ``fate``."""
    return inbox.join(kept.selectExpr("run_id", "message_id"), ["run_id", "message_id"], "left_anti").selectExpr(
        "run_id", "message_id", "'lost_crash' as fate"
    )


def path_latencies(row: DataFrame, link: DataFrame) -> DataFrame:
    """Returns the latencies of bypassed paths: ``run_id, node_id, peer, latency_rounds``."""
    hop = row.selectExpr(*NODE, "peer", "posexplode(path) as (position, src)")
    ends = hop.selectExpr(*NODE, "peer", "position - 1 as position", "src as dst")
    return (
        hop.join(ends, [*NODE, "peer", "position"])
        .join(link.selectExpr(*_LINK, "latency_rounds"), _LINK)
        .groupBy(*NODE, "peer")
        .agg({"latency_rounds": "sum"})
        .toDF(*NODE, "peer", "latency_rounds")
    )


def new_peers(asked: DataFrame, peer: DataFrame, latency: DataFrame) -> DataFrame:
    """Returns WAITING rows of relation ``peer`` for receivers of requests that are not yet peers of the sender."""
    return (
        asked.join(peer.selectExpr(*NODE, "peer"), [*NODE, "peer"], "left_anti")
        .join(latency, [*NODE, "peer"])
        .selectExpr(
            *NODE, "peer", "'WAITING' as status", "cast(null as bigint) as incarnation", "latency_rounds"
        )
    )  # fmt: skip


def send_requests(asked: DataFrame, kind: str, latency: DataFrame, topology: DataFrame, status: DataFrame) -> DataFrame:
    """Returns CON_REQUEST (Alg. 3, line 11) or SYN_REQUEST (Alg. 6, line 8) with TOP for the peers in `asked`."""
    links = topology.join(asked.selectExpr(*NODE).distinct(), NODE, "left_semi").groupBy(NODE).agg(F.expr(LINKS))
    own = status.selectExpr(*NODE, "incarnation as known")
    once = asked.selectExpr(*NODE, "peer", "round").distinct()
    return to_send(
        once.join(latency, [*NODE, "peer"]).join(links, NODE, "left").join(own, NODE, "left"), trigger=FAULT_TRIGGER,
        rank="1", kind=f"'{kind}'", dst="peer", incarnation="coalesce(known, 0)", links="links",
        latency_rounds="latency_rounds",
    )  # fmt: skip


def answered_peers(inbox: DataFrame, peer: DataFrame) -> DataFrame:
    """Returns the newest status of each peer that sent a message about a connection.

    The sender of CON_REQUEST is OPERATIONAL, and the sender of SYN_REQUEST is RECOVERING. A STATUS from a suspected
    peer is ignored until the peer sends SYN_REQUEST: the node has sent messages for nodes behind the peer over another
    path, and new messages over the peer could overtake these messages. A STATUS does not replace another message
    of its incarnation: SYN_REQUEST needs an answer and Guided messages, even if a joining node then states OPERATIONAL.
    The result has the columns of `PEER`, ``kind, trigger, round`` and ``is_new``: whether the receiver has sent no
    multicast message to this incarnation of the peer yet.
    """
    said = inbox.where(
        "kind in ('CON_REQUEST', 'SYN_REQUEST') or (kind = 'STATUS' and status <> 'DETACHED')"
        " or (kind = 'PAR_TOP' and source_seq is not null)"
    ).selectExpr(
        "run_id", "dst as node_id", "src as peer", "kind", "incarnation", "due_round - sent_round as latency_rounds",
        "message_id as trigger", "due_round as round",
        "case kind when 'SYN_REQUEST' then 'RECOVERING' when 'STATUS' then status else 'OPERATIONAL' end"
        " as status", "kind = 'STATUS' as is_status",
    )  # fmt: skip
    known = peer.selectExpr(*NODE, "peer", "status as known_status", "incarnation as known_incarnation")
    counts = """kind <> 'STATUS' or known_status is null
      or (known_status <> 'FAILED' and coalesce(known_incarnation, incarnation) <= incarnation)"""
    newest = "incarnation desc, is_status, trigger desc"
    last = f"{row_number('news of a peer', 'run_id, node_id, peer', newest)} as position"
    is_new = "known_status = 'WAITING' or coalesce(known_incarnation, if(known_status is null, 0, null)) < incarnation"
    return (
        said.join(known, [*NODE, "peer"], "left")
        .where(counts)
        .selectExpr("*", last, f"coalesce({is_new}, false) as is_new")
        .where("position = 1")
        .selectExpr(*PEER.columns, "kind", "trigger", "round", "is_new")
    )


def with_answers(peer: DataFrame, answer: DataFrame, path: DataFrame) -> DataFrame:
    """Applies the statuses in `answer` to relation ``peer``. Deletes FAILED rows of nodes behind recovered peers.

    A node behind a recovered peer reports its own recovery only to this peer, so its status is unknown.
    """
    told = peer.join(answer.selectExpr(*NODE, "peer"), [*NODE, "peer"], "left_anti")
    back = answer.where("kind <> 'STATUS'").selectExpr(*NODE, "peer as nearer")
    behind = (
        path.selectExpr(*NODE, "target as peer", "path")
        .join(back, NODE)
        .where("array_contains(path, nearer)")
        .selectExpr(*NODE, "peer")
        .distinct()
        .selectExpr(*NODE, "peer", "true as is_behind")
    )
    return (
        told.join(behind, [*NODE, "peer"], "left")
        .where("not (status = 'FAILED' and coalesce(is_behind, false))")
        .selectExpr(*PEER.columns)
        .unionByName(answer.selectExpr(*PEER.columns))
    )


def asking_peers(inbox: DataFrame) -> DataFrame:
    """Returns the receivers of STATUS answers: ``run_id, node_id, peer, for_incarnation, latency_rounds, round``.

    A peer gets one answer per round. The answer is addressed to the incarnation that sent the request, and has the
    latency of the request.
    """
    asked = inbox.where("kind in ('CON_REQUEST', 'SYN_REQUEST')").selectExpr(
        "run_id", "dst as node_id", "src as peer", "incarnation as for_incarnation",
        "due_round - sent_round as latency_rounds", "due_round as round",
    )  # fmt: skip
    newest = (f"max({name}) as {name}" for name in ("for_incarnation", "latency_rounds", "round"))
    return asked.groupBy(*NODE, "peer").agg(*map(F.expr, newest))


def send_statuses(to: DataFrame, status: DataFrame, join: DataFrame, *, is_answer: bool) -> DataFrame:
    """Returns STATUS messages with the status and the incarnation of their sender.

    A node sends answers to requests (`is_answer`) before announcements of a new status.
    """
    own = status.selectExpr(*NODE, "status as own_status", "incarnation as own_incarnation")
    detached = join.where("status = 'DETACHED'").selectExpr(*NODE, "true as is_detached")
    state = (
        "case when is_detached then 'DETACHED' when own_status = 'RECOVERING' then own_status else 'OPERATIONAL' end"
    )
    return to_send(
        to.join(own, NODE, "left").join(detached, NODE, "left"), trigger=FAULT_TRIGGER, rank="0" if is_answer else "2",
        kind="'STATUS'", dst="peer", status=state, incarnation="coalesce(own_incarnation, 0)",
        for_incarnation="for_incarnation", latency_rounds="latency_rounds",
    )  # fmt: skip
