"""The audits of protocol ``ginger``, in addition to the general audits: the SQL files that start with ``-- audit``.

Three relations are computed in Python, because a balance depends on all earlier operations of its replica, and the path
of a broker to the root depends on the parents of other brokers:

- ``balance``: the balances of all replicas of accounts (section 5.2)
- ``broken_tree``: the live brokers that have no path to the root at the end of quiescent runs, and all roots of a run
  except the one with the lowest id
- ``start_parent``: the parents of brokers in the initial trees of runs with crashes
"""

from __future__ import annotations

from pipelines.contract.audit import Relation, arrow_rows, sql_audits, sql_files
from udfs.ginger.bank import BALANCES, replay
from udfs.ginger.bound import START_PARENTS, start_parents
from udfs.ginger.tree import BROKEN, broken_trees

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
RELATIONS: dict[str, Relation] = {
    **{name: _SQL[name] for name in ("quiet_run", "key_item", "up_node")},
    "balance": lambda evidence: arrow_rows(evidence.sql(_REPLICAS), replay, BALANCES),
    "broken_tree": lambda evidence: arrow_rows(evidence.sql(_TREES), broken_trees, BROKEN),
    "start_parent": lambda evidence: arrow_rows(evidence.sql(BOUND_INPUT), start_parents, START_PARENTS),
    **{name: _SQL[name] for name in ("election_message", "election", "newcomer")},
}
AUDITS = sql_audits("pipelines.protocols.ginger.audits")
