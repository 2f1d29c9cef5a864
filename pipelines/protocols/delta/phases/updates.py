"""Functions that several phases of a round share.

They select joining and synchronising nodes, change routing information (Algorithm 1, lines 25 and 26), and open
connections with failure detectors (section 4.3; rules R19 to R21).
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from pipelines.contract.rows import NODE, EntryChanges, remaining_entries
from pipelines.engines.frames import union
from pipelines.protocols.delta.steps import connections, join, recovery, routing
from pipelines.protocols.delta.tables import FAULT_TRIGGER, ROUTING_ENTRY
from pipelines.protocols.delta.work import Work


def joining_nodes(work: Work) -> DataFrame:
    """Returns the nodes whose join is unfinished and whose join point has answered."""
    return work.now("join").where("status in ('ATTACHED', 'CONFIRMED')").selectExpr(*NODE)


def synchronising(work: Work) -> DataFrame:
    """Returns the nodes that receive routing information: RECOVERING nodes and `joining_nodes`."""
    recovering = work.now("status").where("status = 'RECOVERING'").selectExpr(*NODE)
    if not work.round.facts["join"]["detached"]:
        return recovering
    return work.keep("synchronising", recovering.unionByName(joining_nodes(work)))


def blocked_nodes(work: Work) -> DataFrame:
    """Returns the nodes that neither issue calls nor accept join requests: ``run_id, node_id``."""
    joining = work.now("join").where("status <> 'VALID_JOINED'").selectExpr(*NODE)
    if not work.is_recovering:
        return joining
    return joining.unionByName(work.now("status").where("status <> 'OPERATIONAL'").selectExpr(*NODE))


def change_entries(work: Work) -> tuple[DataFrame, EntryChanges | None]:
    """Applies the finished SUB and UNSUB messages to SUBS_SET. Writes routing_entry and tombstone.

    Returns the entries before the round, and the changes (None if no entry changed).
    """
    entries = work.now("routing_entry")
    if not (work.finished and work.may_change_entries):
        return entries, None
    if work.is_disturbed:
        # In most rounds only publications are finished, and they change no entries.
        finished = work.keep("ending", union(ended.where("kind in ('SUB', 'UNSUB')") for ended in work.finished))
        if work.is_empty(finished) and not work.added:
            return entries, None
    else:
        finished = union(work.finished)
    added = routing.added_entries(finished, work.now("path"))
    if work.is_disturbed:
        tombstone = _store_tombstones(work, finished)
        for told in work.added:
            # If the join point recovers, a joining node gets a SUB twice: in PAR_SUB and as a message.
            added = routing.unknown_entries(added, told, tombstone)
        added = routing.unknown_entries(union([added, *work.added]), entries, tombstone)
    else:
        added = union([added, *work.added])
    changes = EntryChanges(
        work.keep("added_entries", added.selectExpr(*ROUTING_ENTRY.columns, "trigger")),
        work.keep("removed_entries", routing.removed_entries(finished)) if work.may_end_subscriptions else None,
    )
    if work.round.faults.may_crash:
        _store_own_subscriptions(work, finished)
    if work.is_empty(changes.added) and (changes.removed is None or work.is_empty(changes.removed)):
        return entries, None
    if changes.removed is None:
        work.add("routing_entry", changes.added.selectExpr(*ROUTING_ENTRY.columns))
    else:
        work.change("routing_entry", remaining_entries(entries, changes))
    return entries, changes


def _store_tombstones(work: Work, finished: DataFrame) -> DataFrame:
    """Adds a tombstone for each UNSUB in `finished`, so that a late PAR_SUB restores no entry. Returns the relation."""
    ended = work.round.faults.disturbed.of(
        finished.where("kind = 'UNSUB'").selectExpr(*NODE, "subscription_id").distinct()
    )
    return work.put("tombstone", work.now("tombstone").unionByName(ended).distinct())


def entries_after(work: Work, finished: DataFrame, path: DataFrame) -> DataFrame:
    """Returns the routing entries (SUBS_SET) after the messages in `finished` have changed them."""
    entries, added = work.now("routing_entry"), routing.added_entries(finished, path)
    if work.is_disturbed:
        added = routing.unknown_entries(added, entries, work.now("tombstone"))
    return remaining_entries(entries, EntryChanges(added, routing.removed_entries(finished)))


def apply_finished(work: Work, finished: DataFrame, path: DataFrame) -> None:
    """Changes the routing information at the nodes that have finished messages in phase 1 (Algorithm 1, line 26).

    These messages (columns `confirmations.FINISHED`) are not sent to a node that synchronises in this round: the
    routing entries that it is sent later in the round contain their effect. Messages that are finished in later phases
    change the routing information at the end of the round (`change_entries`, `forward.close`).
    """
    if work.round.facts["processing"]["joining"]:
        unmarked = routing.joined_links(finished, is_marked=False)
        work.put("topology", routing.merge_links(work.now("topology"), unmarked))
    _store_tombstones(work, finished)
    work.put("routing_entry", entries_after(work, finished, path))


def _store_own_subscriptions(work: Work, finished: DataFrame) -> None:
    """Stores the confirmed subscriptions of nodes themselves durably, and deletes those that have ended (rule R31)."""
    mine = (
        work.round.faults.crashing.of(finished).where("source = node_id").selectExpr(*NODE, "subscription_id", "kind")
    )
    begun = mine.where("kind = 'SUB'").selectExpr(*NODE, "subscription_id")
    ended = mine.where("kind = 'UNSUB'").selectExpr(*NODE, "subscription_id")
    own = work.now("own_subscription").unionByName(begun).distinct()
    work.change("own_subscription", own.join(ended, [*NODE, "subscription_id"], "left_anti"))


def update_paths(work: Work, changed: DataFrame) -> DataFrame:
    """Updates relations path and routing_entry at the nodes in `changed`, whose links or failed peers have changed.

    If no links have changed in this phase, only column ``responsible`` is computed again. Returns relation path.
    """
    node, peer = work.keep("changed", changed.selectExpr(*NODE).distinct()), work.now("peer")
    if work.is_empty(node):
        return work.now("path")
    if "topology" in work.result.state:
        next_path = routing.next_paths(work.now("path"), work.now("topology"), node, work.radius, peer, work.keep)
    else:
        next_path = routing.next_responsible(work.now("path"), node, peer)
    path = work.put("path", next_path)
    work.put("routing_entry", routing.rerouted_entries(work.now("routing_entry"), path, node))
    return path


def add_received_links(work: Work, links: DataFrame) -> None:
    """Adds received links to the views of their receivers, if both ends are within δ+1 hops. Writes topology.

    Does nothing in runs without joins, because their views do not change.
    """
    if not work.round.facts["join"]["joiners"]:
        return
    told = work.keep("told_links", routing.unknown_links(links, work.now("topology")))
    if work.is_empty(told):
        return
    node = told.selectExpr(*NODE).distinct()
    merged = work.now("topology").join(node, NODE, "left_semi").unionByName(told)
    paths = routing.view_paths(work.keep("merged_links", merged.distinct()), work.radius, None, work.keep).distinct()
    near = recovery.within_reach(told, paths, work.setting)
    work.put("topology", routing.merge_links(work.now("topology"), near))


def connections_of(work: Work) -> DataFrame:
    """Returns the connections of all nodes that are up: ``run_id, node_id, peer, incarnation, latency_rounds``."""
    link = work.round.run.link
    connected = connections.connected(work.now("path"), work.now("peer"), link)
    if not work.round.facts["join"]["detached"]:
        return connected
    waiting = join.waiting_connections(work.now("join"), link)
    if (down := work.round.faults.down) is not None:  # relation join is durable, so nodes that are down have rows
        waiting = waiting.join(down.selectExpr(*NODE), NODE, "left_anti")
    return connected.unionByName(waiting)


def set_detectors(work: Work, crashed: DataFrame) -> None:
    """Schedules failure reports at the peers of the `crashed` nodes, and records status FAILED of these nodes."""
    ended = crashed.selectExpr(*NODE, "incarnation", "round", "true as is_down")
    work.broken.append(_broken(work, connections_of(work), ended))
    work.statuses.append(crashed.selectExpr(*NODE, "round", "'FAILED' as status"))


def watch(work: Work, opened: DataFrame) -> None:
    """Schedules failure reports for the new connections `opened` whose peer's incarnation has ended.

    A request may arrive after its sender has crashed.
    """
    over = []
    if (down := work.round.faults.down) is not None:
        over.append(down.selectExpr(*NODE, "incarnation", work.round_column, "true as is_down"))
    if work.round.facts["status"]["returned"] or work.round.faults.recovered is not None:
        former = work.now("status").selectExpr(*NODE, "incarnation - 1 as incarnation", work.round_column)
        over.append(former.selectExpr("*", "false as is_down"))
    work.broken += [_broken(work, opened, ended) for ended in over]


def _broken(work: Work, connection: DataFrame, ended: DataFrame) -> DataFrame:
    return connections.broken_connections(connection, ended, work.now("path"), work.round.run.link)


def watch_join_points(work: Work, asked: DataFrame) -> None:
    """Schedules failure reports at the nodes in `asked` that send JOIN_REQUEST to a join point that is down."""
    connected = join.waiting_connections(work.now("join"), work.round.run.link)
    watch(work, connected.join(asked.selectExpr(*NODE), NODE, "left_semi"))


def connect_joiners(work: Work, accepted: DataFrame) -> None:
    """Opens the connections of join points to the joining nodes in `accepted` (see `steps.join`). Writes peer."""
    link = work.round.run.link.selectExpr("run_id", "src as node_id", "dst as joiner", "latency_rounds")
    taken = work.round.faults.disturbed.of(accepted).join(link, [*NODE, "joiner"]).selectExpr(
        *NODE, "joiner as peer", "'OPERATIONAL' as status", "incarnation", "latency_rounds", "'JOIN_REQUEST' as kind"
    )  # fmt: skip
    taken = work.keep("taken_in", taken)
    work.put("peer", connections.with_answers(work.now("peer"), taken, work.now("path")))
    watch(work, taken)


def tell_peers(work: Work, node: DataFrame) -> None:
    """Sends the STATUS of each node in `node` (``run_id, node_id, round``) to all its peers."""
    connected = connections_of(work).withColumnRenamed("incarnation", "for_incarnation")
    to = connected.join(node.selectExpr(*NODE, "round"), NODE)
    work.send(connections.send_statuses(to, work.now("status"), work.now("join"), is_answer=False))


def ask_again(work: Work, asked: DataFrame) -> None:
    """Sends JOIN_REQUEST again for `asked`: ``run_id, node_id, join_point, source_seq, round`` (rule R24)."""
    asked = work.keep(
        "asked_again", asked.selectExpr(*NODE, "join_point", "source_seq", f"{FAULT_TRIGGER} as trigger", "round")
    )
    work.send(join.send_join_requests(asked, work.now("status")))
    watch_join_points(work, asked)


def synchronise(work: Work, asked: DataFrame) -> None:
    """Sends SYN_REQUEST to the peers in `asked`, at most once in a round to each peer. Writes synch and peer."""
    for before in work.asked:
        asked = asked.join(before, [*NODE, "peer"], "left_anti")
    asked = work.keep("asked", asked.selectExpr(*NODE, "peer", "path", "round"))
    if work.is_empty(asked):
        return
    work.asked.append(asked.selectExpr(*NODE, "peer"))
    work.put("synch", recovery.more_synch(work.now("synch"), asked))
    request(work, "SYN_REQUEST", asked)


def request(work: Work, kind: str, asked: DataFrame) -> None:
    """Sends a message of `kind`, SYN_REQUEST or CON_REQUEST, to the peers in `asked`. Writes peer."""
    latency = work.keep("asked_latency", connections.path_latencies(asked, work.round.run.link))
    peer = work.now("peer")
    known = peer.unionByName(connections.new_peers(asked.selectExpr(*NODE, "peer"), peer, latency))
    work.put("peer", known)
    work.send(connections.send_requests(asked, kind, latency, work.now("topology"), work.now("status")))
