"""The bound of protocol ``delta``, and the audits of its guarantees in addition to the general audits.

Bound and audits are SQL. They read relation ``tree_path``, which is computed in Python: the number of its hops depends
on δ, and not every engine has recursive SQL.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pipelines.contract.audit import SLOW_CRASHING_RUN, Audit, Evidence, Relation, sql_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SQL = sql_files("pipelines.protocols.delta.audits")
BOUND = f"{_SQL['bound']}\nunion all\n{SLOW_CRASHING_RUN}"
"""The runs in which more than δ nodes are down or recovering at once, or nodes crash and messages are slow.

Only runs with crashes depend on latencies: a failure detector reports a crash after a fixed delay, and the last
messages of the node must arrive before the report (rule R21).
"""


def tree_paths(evidence: Evidence) -> DataFrame:
    """Returns the paths between members of the overlay, with the columns of `pipelines.engines.paths.delta_paths`.

    The paths have up to δ+1 hops, for the largest δ of all runs.
    """
    (reach,) = evidence.sql("select coalesce(max(delta), 0) + 1 from member").collect()[0]
    ends = "join member s on s.run_id = l.run_id and s.node_id = l.src join member d on d.run_id = l.run_id"
    link = evidence.sql(f"select l.run_id, l.src, l.dst from link l {ends} and d.node_id = l.dst")  # noqa: S608 - constant
    return evidence.paths(link, reach)


_READ = (
    "path", "judged_path", "detached", "unreachable", "time_limit", "due_subscription", "near", "entry", "judged_entry",
    "broken_view", "broken_level_1", "broken_level_2",
)  # fmt: skip
RELATIONS: Mapping[str, Relation] = {
    "member": _SQL["member"],
    "judged": _SQL["judged"],
    "tree_path": tree_paths,
    **{name: _SQL[name] for name in _READ},
}
AUDITS: tuple[Audit, ...] = (
    Audit(
        "no_operational_skipped",
        "no message skips an OPERATIONAL or REJOINING node on its path (Key Corollary)",
        _SQL["no_operational_skipped"],
    ),
    Audit(
        "join_consistency",
        "every node's view contains exactly the links within δ+1 hops of the node (Eq. 1)",
        "select * from broken_view",
    ),
    Audit(
        "level_1", "within δ+1 hops of a subscriber, routing entries name the subscriber",
        "select * from broken_level_1",
    ),
    Audit(
        "level_2", "farther from a subscriber, routing entries name the node δ+1 hops towards the subscriber",
        "select * from broken_level_2",
    ),
    Audit(
        "recovered_state",
        "a recovered node has the view and the routing entries of a node that never failed",
        _SQL["recovered_state"],
    ),
    Audit(
        "nothing_pending",
        "when no message is in flight, no node waits for a message",
        _SQL["nothing_pending"],
    ),
    Audit(
        "ends_in_time",
        "within a bounded time after the last crash or recovery all nodes are OPERATIONAL and all calls confirmed",
        _SQL["ends_in_time"],
    ),
    Audit(
        "answered_peers", "a node sends multicast messages over a bypass only after the other end has answered",
        _SQL["answered_peers"],
    ),
    Audit("last_words", "a failure detector reports a crash after the node's last messages", _SQL["last_words"]),
    Audit(
        "order_of_resends", "messages of one source that a node sends to a peer in a round keep their order",
        _SQL["order_of_resends"],
    ),
    Audit(
        "incarnations", "a recovered node handles only messages of nodes that know its new incarnation",
        _SQL["incarnations"],
    ),
    Audit("tells_peers", "a recovered node sends its new status to its synchronisation points", _SQL["tells_peers"]),
    Audit(
        "answers_in_turn",
        "a RECOVERING node answers SYN_REQUEST after its own synchronisation points on other sides have answered",
        _SQL["answers_in_turn"],
    ),
    Audit("status_first", "a node sends STATUS before the multicast messages of a round", _SQL["status_first"]),
    Audit(
        "guided_again", "a recovered node computes again the recipients of publications that it accepted as Guided",
        _SQL["guided_again"],
    ),
    Audit("own_messages", "a message that arrives at its own source is a duplicate", _SQL["own_messages"]),
    Audit("own_number", "the duplicate detector of a publisher has its own newest number", _SQL["own_number"]),
)  # fmt: skip
