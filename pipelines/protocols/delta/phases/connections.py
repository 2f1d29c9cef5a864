"""The connections of nodes in a round: requests, and the failure detectors on them (4.3; rules R19 to R21)."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame

from pipelines.contract.rows import NODE
from pipelines.protocols.delta.messages import FAULT_TRIGGER
from pipelines.protocols.delta.steps import detectors, handshake, join, recovery
from pipelines.protocols.delta.work import Work


def connections_of(work: Work) -> DataFrame:
    """Returns the connections of all nodes that are up: ``run_id, node_id, peer, incarnation, latency_rounds``."""
    link = work.round.run.link
    connected = detectors.connected(work.now("path"), work.now("peer"), link)
    if not work.round.facts["join"]["detached"]:
        return connected
    waiting = join.waiting_connections(work.now("join"), link)
    if (down := work.round.faults.down) is not None:  # Relation join is durable: it has rows of nodes that are down.
        waiting = waiting.join(down.select(NODE), NODE, "left_anti")
    return connected.unionByName(waiting)


def set_detectors(work: Work, crashed: DataFrame) -> None:
    """Sets the detectors of the peers of nodes that crash now; writes their status.

    Args:
        work: The round.
        crashed: ``run_id, node_id, round, incarnation``.
    """
    ended = crashed.selectExpr(*NODE, "incarnation", "round", "true as is_down")
    work.broken.append(detectors.broken_connections(connections_of(work), ended))
    work.statuses.append(crashed.selectExpr(*NODE, "round", "'FAILED' as status"))


def watch(work: Work, made: Callable[[], DataFrame]) -> None:
    """Sets the detectors of connections to nodes that are down by now, or to incarnations that are over.

    A request may arrive after the end of the incarnation that sent it, when the node is back already.

    Args:
        work: The round.
        made: Returns the connections that are made in this round, ``run_id, node_id, peer, incarnation,
            latency_rounds``; asked where a node is down or has come back.
    """
    over = []
    if (down := work.round.faults.down) is not None:
        over.append(down.selectExpr(*NODE, "incarnation", work.present, "true as is_down"))
    if work.round.facts["status"]["returned"] or work.round.faults.recovered is not None:
        former = work.now("status").selectExpr(*NODE, "incarnation - 1 as incarnation", work.present)
        over.append(former.selectExpr("*", "false as is_down"))
    if over:
        connection = made()
        work.broken += [detectors.broken_connections(connection, ended) for ended in over]


def watch_join_points(work: Work, asked: DataFrame) -> None:
    """Sets the detectors of nodes whose join points are down by now."""

    def waiting() -> DataFrame:
        connected = join.waiting_connections(work.now("join"), work.round.run.link)
        return connected.join(asked.select(NODE), NODE, "left_semi")

    watch(work, waiting)


def connect_joiners(work: Work, accepted: DataFrame) -> None:
    """A join point is connected to whom it answers: writes peer.

    Args:
        work: The round.
        accepted: Accepted rows (see `steps.join`).
    """
    link = work.round.run.link.selectExpr("run_id", "src as node_id", "dst as joiner", "latency_rounds")
    taken = work.of_disturbed(accepted).join(link, [*NODE, "joiner"]).selectExpr(
        *NODE, "joiner as peer", "'OPERATIONAL' as status", "incarnation", "latency_rounds", "'JOIN_REQUEST' as kind"
    )  # fmt: skip
    taken = work.keep("taken_in", taken)
    work.put("peer", handshake.with_answers(work.now("peer"), taken, work.now("path")))
    watch(work, lambda: taken)


def tell_peers(work: Work, node: DataFrame) -> None:
    """Sends STATUS to all peers of nodes that are up for good.

    Args:
        work: The round.
        node: ``run_id, node_id, round``.
    """
    connected = connections_of(work).withColumnRenamed("incarnation", "for_incarnation")
    to = connected.join(node.select(*NODE, "round"), NODE)
    work.send(handshake.send_statuses(to, work.now("status"), work.now("join"), is_answer=False), *handshake.STATED)


def ask_again(work: Work, asked: DataFrame) -> None:
    """Rule R24: JOIN_REQUEST once more.

    Args:
        work: The round.
        asked: ``run_id, node_id, join_point, source_seq, round``.
    """
    asked = work.keep("asked_again", asked.selectExpr(*NODE, "join_point", "source_seq", FAULT_TRIGGER, "round"))
    work.send(join.send_join_requests(asked, work.now("status")), "incarnation")
    watch_join_points(work, asked)


def synchronise(work: Work, asked: DataFrame) -> None:
    """Sends SYN_REQUEST, once a round to the same node: reads topology, path; writes synch, peer."""
    for before in work.asked:
        asked = asked.join(before, [*NODE, "peer"], "left_anti")
    asked = work.keep("asked", asked.select(*NODE, "peer", "path", "round"))
    if work.is_empty(asked):
        return
    work.asked.append(asked.select(*NODE, "peer"))
    work.put("synch", recovery.more_synch(work.now("synch"), asked))
    request(work, "SYN_REQUEST", asked)


def request(work: Work, kind: str, asked: DataFrame) -> None:
    """Sends SYN_REQUEST or CON_REQUEST; writes peer."""
    latency = work.keep("asked_latency", handshake.path_latencies(asked, work.round.run.link))
    peer = work.now("peer")
    work.put("peer", peer.unionByName(handshake.new_peers(asked.select(*NODE, "peer"), peer, latency)))
    work.send(
        handshake.send_requests(asked, kind, latency, work.now("topology"), work.now("status")), *handshake.REQUEST
    )
