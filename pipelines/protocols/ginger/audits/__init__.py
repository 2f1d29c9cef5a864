"""The audits of protocol ``ginger``, in addition to the general audits.

Relations `balance`, `broken_tree` and `start_parent` are computed in Python: a balance depends on all earlier
operations of its replica, and the path of a broker to the root depends on the parents of other brokers. SQL files that
start with ``-- audit`` are further audits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines.contract.audit import Evidence, Relation, arrow_rows, sql_audits, sql_files
from udfs.ginger.bank import BALANCES, replay
from udfs.ginger.bound import START_PARENTS, start_parents
from udfs.ginger.tree import BROKEN, broken_trees

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SQL = sql_files("pipelines.protocols.ginger.audits")
OPERATION = _SQL["bank_operation"]
BOUND_INPUT = sql_files("pipelines.protocols.ginger")["bound"]
"""SQL for the input of `udfs.ginger.bound.beyond_runs`: one row for each run with crashes."""
UNDECIDED = _SQL["undecided"]
"""SQL for the runs that ended too early for the audits: ``run_id, round, reason``."""
_REPLICAS = f"""
select run_id, node_id, topic, start_balance,
  array_sort(collect_list(struct(position, source, source_seq, guarantee, content))) as operations
from ({OPERATION}) operation
group by run_id, node_id, topic, start_balance
"""  # noqa: S608 - built of constants
_TREES = """
select run_id, array_sort(collect_list(struct(node_id, above as parent))) as nodes
from up_node
where role = 'broker'
group by run_id
"""


def balance(evidence: Evidence) -> DataFrame:
    """Returns the balances of all replicas of accounts, see section 5.2. The columns are `BALANCES`."""
    return arrow_rows(evidence.sql(_REPLICAS), replay, BALANCES)


def broken_tree(evidence: Evidence) -> DataFrame:
    """Returns the live brokers that have no path to the root at the end of quiescent runs (columns `BROKEN`).

    If a run has several roots, all roots except the one with the lowest id are also in the result.
    """
    return arrow_rows(evidence.sql(_TREES), broken_trees, BROKEN)


def start_parent(evidence: Evidence) -> DataFrame:
    """Returns the parents of brokers in the initial trees of runs with crashes (columns `START_PARENTS`)."""
    return arrow_rows(evidence.sql(BOUND_INPUT), start_parents, START_PARENTS)


RELATIONS: dict[str, Relation] = {
    **{name: _SQL[name] for name in ("quiet_run", "key_item", "up_node")},
    "balance": balance,
    "broken_tree": broken_tree,
    "start_parent": start_parent,
    **{name: _SQL[name] for name in ("election_message", "election", "newcomer")},
}
AUDITS = sql_audits("pipelines.protocols.ginger.audits")
