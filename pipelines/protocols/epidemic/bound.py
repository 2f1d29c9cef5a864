"""What protocol ``epidemic`` promises: everything while nothing fails; with faults, more than without recovery."""

from __future__ import annotations

BOUND = """
select run_id, min(round) as round, 'a dispatcher crashed' as reason
from fault_event
where kind = 'crash'
group by run_id
"""
"""Runs with crashes, beside those that lose messages: what is delivered then is a matter of chance, so none is owed."""
