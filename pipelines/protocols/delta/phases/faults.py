"""Phase 1 of a round: crashes, recoveries, failure reports, connections and synchronisation, in this order.

1. A crash schedules failure reports at the peers. A recovered node reads its view TOP_R and sends SYN_REQUEST to its
   synchronisation points Synch_R (`steps.recovery`).
2. DETECT: a node bypasses failed peers (`steps.connections`, Algorithm 3) and resends messages to the closest live
   node.
3. CON_REQUEST, SYN_REQUEST, STATUS: a node connects to the sender, and sends it the messages that waited for the
   connection (Algorithms 4, 6, 7).
4. PAR_TOP, PAR_SUB: a recovering node stores routing information; synchronisation points answer pending requests.
5. A node whose synchronisation points have answered becomes OPERATIONAL* (Algorithm 5, lines 11 to 19).
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from pipelines.contract.rows import KEY, NODE
from pipelines.engines.frames import union
from pipelines.protocols.delta.phases import updates
from pipelines.protocols.delta.steps import confirmations, connections, copies, join, recovery, routing
from pipelines.protocols.delta.tables import with_value
from pipelines.protocols.delta.work import Work

_CONNECTING = ("CON_REQUEST", "SYN_REQUEST", "STATUS", "PAR_TOP")


def handle_faults(work: Work) -> None:
    """Runs phase *faults* of a round (module `dataflow`).

    Reads crashes, the inbox and all relations. Writes all relations except detector and delivered.
    """
    recovered = work.round.faults.recovered
    if work.round.kinds and (work.round.facts["status"]["returned"] or recovered is not None):
        _drop_old(work)
    if (crashed := work.round.faults.crashed) is not None:
        updates.set_detectors(work, crashed)
    before = work.now("peer")
    if recovered is not None:
        _restart(work, recovered)
    if work.may_fail:
        _bypass(work)
    if work.has(*_CONNECTING):
        _connect(work)
    if work.has("PAR_TOP", "PAR_SUB"):
        _apply_routing_information(work)
    if work.is_recovering and (work.may_fail or work.has("SYN_REQUEST", "PAR_TOP", "PAR_SUB")):
        _hand_over(work)
    if work.now("peer") is not before:
        updates.watch(work, connections.fresh_peers(before, work.now("peer")))
    if work.is_recovering and (work.may_fail or work.has("PAR_SUB") or recovered is not None):
        _end_recovery(work)


def _drop_old(work: Work) -> None:
    """Drops the messages for an earlier incarnation of their receiver from the inbox."""
    status, recovered = work.now("status"), work.round.faults.recovered
    known = status if recovered is None else status.unionByName(recovery.returned_status(recovered))
    kept = work.keep("inbox", connections.for_this_incarnation(work.inbox, known))
    work.fates.append(connections.dropped(work.inbox, kept))
    work.inbox = kept


def _restart(work: Work, recovered: DataFrame) -> None:
    """Starts the recovery of the nodes `recovered` (Algorithm 5, lines 1 to 7).

    A node with an unfinished join does not recover: it joins again.
    """
    work.put("status", work.now("status").unionByName(recovery.returned_status(recovered)))
    if work.round.facts["join"]["detached"]:
        recovered = work.keep("returned", _join_again(work, recovered))
    work.statuses.append(recovered.selectExpr(*NODE, "round", "'RECOVERING' as status"))
    topology = work.now("topology").join(recovered.selectExpr(*NODE), NODE, "left_semi")
    to_others = routing.view_paths(topology, work.radius, None, work.keep).where("distance > 0")
    path = work.put("path", union((work.now("path"), routing.own_paths(recovered), to_others)))
    own = recovery.own_entries(work.now("own_subscription"), recovered)
    work.change("routing_entry", work.now("routing_entry").unionByName(own))
    updates.synchronise(work, recovery.neighbours(path, recovered))


def _join_again(work: Work, recovered: DataFrame) -> DataFrame:
    """Restarts the unfinished joins of the nodes `recovered`. Returns the nodes of `recovered` without one.

    Writes join, topology and status.
    """
    again = work.keep("again_joining", join.started_again(work.now("join"), recovered))
    work.put("topology", work.now("topology").join(again.selectExpr(*NODE), NODE, "left_anti"))
    work.put("join", with_value(work.now("join"), again, "status", "'DETACHED'"))
    work.put("status", with_value(work.now("status"), again, "status", "'OPERATIONAL'"))
    state = "case when is_asked then 'RECOVERING' else 'DETACHED' end as status"
    work.statuses.append(again.selectExpr(*NODE, "round", state))
    updates.ask_again(work, again.where("is_asked"))
    return recovered.join(again.selectExpr(*NODE), NODE, "left_anti")


def _bypass(work: Work) -> None:
    """Handles failure reports (Algorithm 3).

    Marks failed peers, connects to live nodes beyond them, and resends messages. Messages without a live recipient are
    finished. Writes peer, path, routing_entry, processing, synch and syn_request.
    """
    failure = work.keep("failure", _failures(work))
    if work.round.facts["join"]["detached"]:
        failure = _retry_joins(work, failure)
    if work.is_empty(failure):
        return
    work.put("peer", connections.with_failures(work.now("peer"), failure, work.now("path")))
    if work.is_recovering or work.round.facts["join"]["detached"]:
        updates.add_received_links(
            work, recovery.stored_links(work.now("topology"), failure, updates.synchronising(work))
        )
    lost, fail_pair = _lost_partners(work, failure), failure.selectExpr(*NODE, "peer")
    for name in ("synch", "syn_request"):
        work.put(name, work.now(name).join(fail_pair, [*NODE, "peer"], "left_anti"))
    path = updates.update_paths(work, failure) if "topology" in work.result.state else work.now("path")
    beyond = work.keep("frontier", connections.frontier(path, failure, work.now("peer")))
    recovering = updates.synchronising(work)
    asked = beyond.join(recovering, NODE, "left_anti").join(
        work.now("peer").selectExpr(*NODE, "peer"), [*NODE, "peer"], "left_anti"
    )
    asked = work.keep("asked", asked.selectExpr(*NODE, "peer", "path", "round"))
    if not work.is_empty(asked):
        updates.request(work, "CON_REQUEST", asked)
    if work.is_recovering or work.round.facts["join"]["detached"]:
        left = beyond.join(recovering, NODE).unionByName(connections.stand_ins(path, lost, work.now("peer"))).distinct()
        updates.synchronise(work, left.join(work.now("synch").selectExpr(*NODE, "peer"), [*NODE, "peer"], "left_anti"))
    _resend_orphans(work, failure, updates.update_paths(work, failure))


def _lost_partners(work: Work, failure: DataFrame) -> DataFrame:
    """Returns the rows of `failure` that interrupt a join or a synchronisation.

    These are rows at joining nodes, and rows whose peer is a synchronisation point that has not answered.
    """
    lost = failure.join(work.now("synch").where("not is_answered"), [*NODE, "peer"], "left_semi")
    if not work.round.facts["join"]["detached"]:
        return lost
    return lost.unionByName(failure.join(updates.joining_nodes(work), NODE, "left_semi")).distinct()


def _failures(work: Work) -> DataFrame:
    """Returns the new failures: peers that a detector reports, peers that join again, senders of STATUS DETACHED."""
    reported = connections.failures(work.inbox, updates.connections_of(work))
    if not work.round.facts["join"]["joiners"]:
        return reported
    gone = join.gone_joiners(work.round.faults.disturbed.of(work.inbox), work.now("path"), updates.blocked_nodes(work))
    found = work.keep("found", union((reported, gone, connections.detached_peers(work.inbox, work.now("peer")))))
    newest = found.groupBy(*NODE, "peer", "round").agg({"incarnation": "max"})
    return newest.toDF(*NODE, "peer", "round", "incarnation")


def _retry_joins(work: Work, failure: DataFrame) -> DataFrame:
    """Sends JOIN_REQUEST again from each DETACHED node whose join point failed, but not permanently (rule R24).

    Returns the rows of `failure` at nodes that are not DETACHED.
    """
    detached = work.now("join").where("status = 'DETACHED'")
    lost = failure.selectExpr(*NODE, "peer as join_point", "round")
    mine = detached.where("is_asked").join(lost, [*NODE, "join_point"])
    mine = mine.selectExpr(*NODE, "join_point", "source_seq", "round")
    if (down := work.round.faults.down) is not None:
        gone = down.where("end_round is null").selectExpr("run_id", "node_id as join_point")
        mine = mine.join(gone, ["run_id", "join_point"], "left_anti").selectExpr(
            *NODE, "join_point", "source_seq", "round"
        )
    updates.ask_again(work, mine.distinct())
    return work.keep("failure", failure.join(detached.selectExpr(*NODE), NODE, "left_anti"))


def _resend_orphans(work: Work, failure: DataFrame, path: DataFrame) -> None:
    """Resends the messages whose responsible node failed, and finishes messages without a live recipient.

    Writes processing.
    """
    processing = work.now("processing")
    orphan = work.keep("orphan", connections.orphans(processing, failure))
    if work.is_empty(orphan):
        return
    taken = work.keep("taken", connections.rerouted(orphan, path, work.now("peer")))
    work.resent.append(taken)
    rerouted = work.put("processing", copies.with_rows(processing, taken))
    finished = work.finish("abandoned", confirmations.abandoned_messages(rerouted, taken))
    work.put("processing", confirmations.without_finished(rerouted, finished))
    if not work.is_empty(finished):
        updates.apply_finished(work, finished, path)


def _connect(work: Work) -> None:
    """Handles CON_REQUEST, SYN_REQUEST and STATUS: stores the peers and answers requests (Algorithms 4 and 7).

    Writes peer, topology, path and syn_request.
    """
    deaf = work.now("join").where("status = 'DETACHED'").selectExpr(*NODE, "true as is_deaf")
    answer = connections.answered_peers(work.round.faults.disturbed.of(work.inbox), work.now("peer"))
    answer = answer.join(deaf, NODE, "left").where("is_deaf is null or kind = 'PAR_TOP'").drop("is_deaf")
    answer = work.keep("answer", answer)
    if not work.is_empty(answer):
        work.put("peer", connections.with_answers(work.now("peer"), answer, work.now("path")))
    if work.has("SYN_REQUEST", "CON_REQUEST"):
        updates.add_received_links(work, recovery.told_links(work.inbox))
    path = updates.update_paths(work, answer)
    if work.has("SYN_REQUEST"):
        work.put("syn_request", recovery.more_syn_requests(work.now("syn_request"), answer))
    asking = connections.asking_peers(work.inbox)
    statuses = connections.send_statuses(asking, work.now("status"), work.now("join"), is_answer=True)
    work.send(statuses)
    if work.is_empty(answer):
        return
    _send_again(work, answer, path)
    if work.has("SYN_REQUEST"):
        again = recovery.asked_again(answer, work.now("synch"), updates.joining_nodes(work))
        known = path.selectExpr(*NODE, "target as peer", "path")
        updates.synchronise(work, again.join(known, [*NODE, "peer"]))


def _send_again(work: Work, answer: DataFrame, path: DataFrame) -> None:
    """Resends messages to the peers in `answer`. Writes processing.

    A peer that answered a request gets the messages that waited for this answer (rule R20). A recovering peer gets the
    messages of PrevOut (rule R26). Messages also go to recipients that the received links add to the view.
    """
    if not work.has("SYN_REQUEST", "CON_REQUEST"):
        work.resent.append(copies.held_back(work.now("processing"), answer))
        return
    message = recovery.under_way(work.now("processing").where("kind <> 'PUB'"), answer.where("kind <> 'STATUS'"))
    message = work.keep("under_way", copies.sender_hops(message, path))
    reach = work.keep("reach", routing.in_view(message, path, work.setting))
    fresh = routing.new_members(reach, work.now("processing")).drop("way").selectExpr("*", routing.UNCONFIRMED)
    row = work.keep("fresh", copies.processing_rows(message, fresh))
    processing = work.now("processing")
    if not work.is_empty(row):
        processing = work.put("processing", processing.unionByName(row))
    earlier = work.keep("earlier", recovery.earlier_messages(processing, reach, answer, path))
    if not work.is_empty(earlier):
        work.put("processing", copies.with_rows(processing, recovery.asked_last(earlier)))
    now = message.selectExpr(*KEY, "now_round").distinct()
    taken = earlier.selectExpr(*KEY, "recipient")
    others = row.join(taken, [*KEY, "recipient"], "left_anti").join(now, KEY)
    held = copies.held_back(processing, answer).join(taken, [*KEY, "recipient"], "left_anti")
    leaving = work.keep("leaving", union((earlier.drop("asked"), held, others)))
    work.resent.append(leaving)


def _apply_routing_information(work: Work) -> None:
    """Applies received PAR_TOP and PAR_SUB to recovering nodes (Algorithm 6, lines 11 to 15).

    Writes topology, path, routing_entry, tombstone and synch.
    """
    told_by = work.inbox.where("kind in ('PAR_TOP', 'PAR_SUB') and source_seq is null")
    told_by = told_by.selectExpr("run_id", "dst as node_id", "src as peer", "kind")
    if work.has("PAR_TOP"):
        updates.add_received_links(work, recovery.told_links(work.inbox))
    if work.has("PAR_SUB"):
        over = work.now("tombstone").unionByName(recovery.told_tombstones(work.inbox)).distinct()
        tombstone = work.put("tombstone", over)
        told = recovery.told_entries(work.inbox)
        work.put("routing_entry", recovery.merged_entries(work.now("routing_entry"), told, tombstone))
        answered = told_by.where("kind = 'PAR_SUB'")
        work.put("synch", with_value(work.now("synch"), answered, "is_answered", "true", [*NODE, "peer"]))
    updates.update_paths(work, told_by)


def _hand_over(work: Work) -> None:
    """Sends PAR_TOP and PAR_SUB for each SYN_REQUEST that its receiver can answer (Algorithm 7, lines 13 to 20).

    Reads all routing information; writes syn_request.
    """
    request, path = work.now("syn_request"), work.now("path")
    ready = work.keep("answerable", recovery.answerable(request, work.now("status"), work.now("synch"), path))
    if work.is_empty(ready):
        return
    timed = ready.selectExpr("*", work.round_column)
    timed = work.keep("handed_links", recovery.with_links(timed, work.now("topology"), path, work.setting))
    tombstone, subscriber = work.now("tombstone"), work.round.run.subscription
    work.send(recovery.low_priority(timed, "PAR_TOP", ["links"], work.setting))
    entries = recovery.send_entries(timed, work.now("routing_entry"), path, tombstone, subscriber, work.setting)
    work.send(entries)
    work.put("syn_request", request.join(ready, [*NODE, "peer"], "left_anti"))


def _end_recovery(work: Work) -> None:
    """Ends the recovery of nodes that wait for no answer (Algorithm 5, lines 11 to 19): sends STATUS and REJOIN.

    Writes status. A node without a reachable node sends no REJOIN. Phase 4 computes a second time the recipients of the
    publications in the ProcessingList of the recovered nodes (rule R32).
    """
    status = work.now("status")
    ready = recovery.ready_nodes(status, work.now("synch")).selectExpr("*", work.round_column)
    ready = work.keep("ready", ready)
    if work.is_empty(ready):
        return
    alone = work.keep("alone", recovery.isolated_nodes(ready, work.now("path")))
    others = ready.join(alone.selectExpr(*NODE), NODE, "left_anti")
    status = with_value(status, ready, "status", "'REJOINING'")
    work.put("status", with_value(status, alone, "status", "'OPERATIONAL'"))
    work.statuses.append(alone.selectExpr(*NODE, "round", "'OPERATIONAL' as status"))
    work.alone.append(alone.selectExpr(*NODE, "cast(-1 as bigint) as trigger", "round"))
    updates.tell_peers(work, ready)
    work.copies.append(recovery.issued_rejoins(others))
    again = work.keep("again", recovery.under_way(work.now("processing").where("kind = 'PUB'"), ready))
    if not work.is_empty(again):
        work.again.append(again)
