"""BankService: replicas that delivered in the agreed order have equal balances (section 5.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines.contract.audit import FOUND, IN_FLIGHT_RUN, Evidence, aggregated, arrow_rows
from udfs.ginger.bank import BALANCES, replay

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

OPERATION = """
with first as (
  select run_id, node_id, topic, source, source_seq, min(position) as position
  from state_delivered
  group by run_id, node_id, topic, source, source_seq
)
select f.run_id, f.node_id, f.topic, f.position, f.source, f.source_seq, p.guarantee, p.content,
  cast(get_json_object(r.parameters, "$['protocol.start_balance']") as bigint) as start_balance
from first f
join publication p on p.run_id = f.run_id and p.source = f.source and p.source_seq = f.source_seq
join run r on r.run_id = f.run_id
where get_json_object(p.content, '$.operation') is not null
"""
"""The bank operations that replicas delivered."""


def balances(evidence: Evidence) -> DataFrame:
    """All replicas have the same balances, after each totally ordered operation and at a quiescent end; none negative.

    What is refused at one replica is refused at all.
    """
    balance = evidence.keep("balance", lambda: _replayed(evidence))
    return _different(evidence, balance).unionByName(_negative(balance)).select(*FOUND)


def _replayed(evidence: Evidence) -> DataFrame:
    replica = ["run_id", "node_id", "topic", "start_balance"]
    delivered = "array_sort(collect_list(struct(position, source, source_seq, guarantee, content))) as operations"
    return arrow_rows(aggregated(evidence.sql(OPERATION), replica, delivered), replay, BALANCES)


def _different(evidence: Evidence, balance: DataFrame) -> DataFrame:
    busy = evidence.sql(IN_FLIGHT_RUN).selectExpr("*", "true as is_busy")
    settled = balance.join(busy, "run_id", "left").where("source is not null or is_busy is null")
    compared = aggregated(
        settled, ["run_id", "topic", "account", "source", "source_seq"],
        "min(struct(balance, node_id)) as least", "max(struct(balance, node_id)) as most",
        "min(is_refused) <> max(is_refused) as differs",
    )  # fmt: skip
    name = evidence.table("node").selectExpr("run_id", "node_id as peer", "name")
    wrong = compared.where("least.balance <> most.balance or coalesce(differs, false)")
    detail = """concat(account, ' of ', topic, ' holds ', most.balance, ', at ', name, ' ', least.balance,
        case when differs then '; refused at one only' else '' end) as detail"""
    return (
        wrong.selectExpr("*", "least.node_id as peer")
        .join(name, ["run_id", "peer"])
        .selectExpr(
            "run_id", "cast(null as bigint) as round", "most.node_id as node_id", "source", "source_seq", detail
        )
    )


def _negative(balance: DataFrame) -> DataFrame:
    detail = "concat(account, ' of ', topic, ' holds ', balance) as detail"
    return balance.where("balance < 0").selectExpr(
        "run_id", "cast(null as bigint) as round", "node_id", "source", "source_seq", detail
    )
