"""The guarantees of protocol ``ginger`` beside the general ones, one SQL file each.

`balance` and `broken_tree` are Python: the accounts of a replica follow from its operations one by one, and a tree is
followed from every broker to its root.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines.contract.audit import Audit, Evidence, Relation, arrow_rows, sql_files
from udfs.ginger.bank import BALANCES, replay
from udfs.ginger.tree import BROKEN, broken_trees

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SQL = sql_files("pipelines.protocols.ginger.audits")
OPERATION = _SQL["bank_operation"]
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
    """Returns the balances of all replicas, columns `BALANCES` (section 5.2)."""
    return arrow_rows(evidence.sql(_REPLICAS), replay, BALANCES)


def broken_tree(evidence: Evidence) -> DataFrame:
    """Returns the brokers that are up at a quiescent end and not in one tree, columns `BROKEN`."""
    return arrow_rows(evidence.sql(_TREES), broken_trees, BROKEN)


RELATIONS: dict[str, Relation] = {
    "quiet_run": _SQL["quiet_run"],
    "key_item": _SQL["key_item"],
    "up_node": _SQL["up_node"],
    "balance": balance,
    "broken_tree": broken_tree,
}
_ONE_TREE = """
select run_id, cast(null as bigint) as round, node_id, cast(null as bigint) as source,
  cast(null as bigint) as source_seq, detail
from broken_tree
"""
AUDITS = (
    Audit(
        "causal_order",
        "what a publisher knew of a key item comes before what it published on it",
        _SQL["causal_order"],
    ),
    Audit(
        "total_order",
        "total-order messages on a key item come in one order, with all else on one side",
        _SQL["total_order"],
    ),
    Audit("balances", "all replicas of a bank have equal balances, and none below zero", _SQL["balances"]),
    Audit(
        "nothing_waiting",
        "when all is quiescent no key item is locked and no message waits",
        _SQL["nothing_waiting"],
    ),
    Audit("one_tree", "when all is quiescent the brokers that are up are one tree", _ONE_TREE),
    Audit(
        "nobody_alone",
        "whoever is up is taken in by somebody, or is the root of all that is left",
        _SQL["nobody_alone"],
    ),
    Audit(
        "nothing_lost",
        "what has left all buffers and is lacking somewhere is published again",
        _SQL["nothing_lost"],
    ),
    Audit("subscribed", "subscriptions are confirmed before anything is published on their topic", _SQL["subscribed"]),
)
