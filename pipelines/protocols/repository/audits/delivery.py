"""Everybody gets what is stored (sections 3.7, 3.8; rule P23)."""

from __future__ import annotations

from pyspark.sql import DataFrame

from pipelines.contract.audit import FOUND, Evidence

MISSING = """
select o.run_id, o.issued_round as round, o.subscriber as node_id, o.source, o.source_seq,
  case when o.n_holders > 0 then concat('stored at ', o.n_holders, ' repositories, and never delivered')
    else 'not stored, though its publisher did not crash' end as detail
from owed_message o
join settled_run s on s.run_id = o.run_id
where o.delivery_round is null and o.excuse is null and s.is_settled
"""

UNDECIDED = """
select o.run_id, min(o.issued_round) as round,
  concat(count(1), ' deliveries are missing, and the run went on for ', min(s.last_round - s.disturbed_round),
    ' of ', min(s.needed_rounds), ' rounds since the last thing from outside') as reason
from owed_message o
join settled_run s on s.run_id = o.run_id
where o.delivery_round is null and o.excuse is null and not s.is_settled
group by o.run_id
"""
"""The runs that ended before all that is stored could be delivered."""


def stored_delivered(evidence: Evidence) -> DataFrame:
    """A subscriber that is up in the end has every message that it asks for, unless nobody can have it (rule P23)."""
    return evidence.sql(MISSING).select(*FOUND)
