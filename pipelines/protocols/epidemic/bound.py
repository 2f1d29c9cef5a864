"""What protocol ``epidemic`` promises: everything while nothing fails; with faults, more than without recovery."""

from __future__ import annotations

BOUND = """
select run_id, min(round) as round, concat('faults: ', array_join(array_sort(collect_set(kind)), ', ')) as reason
from fault_event
where kind <> 'recovery'
group by run_id
"""
"""Runs with any fault: what is delivered then is a matter of chance, so that no delivery can be owed."""
