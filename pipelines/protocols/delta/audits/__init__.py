"""The bound of protocol ``delta``, and the audits of its guarantees in addition to the general audits.

Bound and audits are SQL. They read relation ``tree_path``, which is computed in Python: the number of its hops depends
on δ, and not every engine has recursive SQL.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pipelines.contract.audit import SLOW_CRASHING_RUN, Evidence, Relation, sql_audits, sql_files

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
    "path", "judged_path", "rejoin", "detached", "unreachable", "time_limit", "due_subscription", "near", "entry",
    "judged_entry", "broken_view", "broken_entry",
)  # fmt: skip
RELATIONS: Mapping[str, Relation] = {
    "member": _SQL["member"],
    "judged": _SQL["judged"],
    "tree_path": tree_paths,
    **{name: _SQL[name] for name in _READ},
}
AUDITS = sql_audits("pipelines.protocols.delta.audits")
