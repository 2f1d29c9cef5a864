"""What protocol ``epidemic`` promises: everything while nothing fails; with faults, more than without recovery."""

from __future__ import annotations

BOUND = """
select run_id, min(round) as round, 'a dispatcher crashed' as reason
from fault_event
where kind = 'crash'
group by run_id
union all
select run_id, min(round) as round, 'a link was replaced' as reason
from fault_event
where kind = 'link'
group by run_id
union all
select s.run_id, min(s.issued_round) as round, 'push brings later subscribers earlier events, in no order' as reason
from subscription s
join (select run_id, min(issued_round) as first_round from publication group by run_id) p on p.run_id = s.run_id
join run r on r.run_id = s.run_id
where s.issued_round >= p.first_round
  and get_json_object(r.parameters, "$['protocol.recovery']") in ('push', 'push_pull')
group by s.run_id
"""
"""Runs with crashes or a tree that changes, beside those that lose messages: what is delivered then is a matter of
chance, so none is owed. And runs with push in which somebody subscribes after the first publication.
"""
