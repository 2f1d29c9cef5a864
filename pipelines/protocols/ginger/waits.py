"""Why messages still wait: SQL for `pipelines.why`, by the relation in which they do."""

from __future__ import annotations

ENTRY_QUEUE_WAITS = """
select q.run_id, q.node_id, q.source, q.source_seq,
  coalesce(concat('key item ', l.key_item, ' is locked by call ', l.source_seq, ' of ', n.name),
    'a message before it waits for one of its key items') as reason
from state_entry_queue q
left join state_locked l on l.run_id = q.run_id and l.node_id = q.node_id and l.topic = q.topic
  and array_contains(q.keys, l.key_item) and q.guarantee <> 'total'
left join node n on n.run_id = l.run_id and n.node_id = l.source
"""
HOLD_WAITS = """
select h.run_id, h.node_id, h.source, h.source_seq,
  coalesce(concat('messages are held until ', n.name, ' has told what it missed'),
    'messages are held until the broker has a new parent') as reason
from state_hold h
left join state_awaited a on a.run_id = h.run_id and a.node_id = h.node_id
left join node n on n.run_id = a.run_id and n.node_id = a.partner
where h.kind = 'Metadata'
"""
PENDING_WAITS = """
with needed as (
  select p.run_id, p.node_id, p.topic, p.source, p.source_seq, p.acked, p.covered, explode(m.members) as member
  from state_pending p
  join state_member m on m.run_id = p.run_id and m.node_id = p.node_id and m.topic = p.topic
)
select p.run_id, p.node_id, p.source, p.source_seq,
  concat('call ', e.source_seq, ' of ', n.name, ' comes before it on a key item') as reason
from state_pending p
join state_pending e on e.run_id = p.run_id and e.node_id = p.node_id and e.topic = p.topic
  and e.arrival < p.arrival and arrays_overlap(e.keys, p.keys)
join node n on n.run_id = e.run_id and n.node_id = e.source
union all
select p.run_id, p.node_id, p.source, p.source_seq, concat('TotalAck of ', n.name, ' has not come') as reason
from state_pending p
join state_subscriber s on s.run_id = p.run_id and s.node_id = p.node_id and s.topic = p.topic
join state_neighbour c on c.run_id = p.run_id and c.node_id = p.node_id and c.neighbour = s.neighbour
  and c.relationship = 'child'
join node n on n.run_id = p.run_id and n.node_id = s.neighbour
where not array_contains(p.acked, s.neighbour)
union all
select w.run_id, w.node_id, w.source, w.source_seq, concat(n.name, ' has not locked its key items') as reason
from needed w
join node n on n.run_id = w.run_id and n.node_id = w.member
left join state_failed f on f.run_id = w.run_id and f.node_id = w.node_id and f.failed = w.member
left join state_neighbour u on u.run_id = w.run_id and u.node_id = w.node_id and u.relationship = 'parent'
left join state_subscriber s on s.run_id = w.run_id and s.node_id = w.node_id and s.topic = w.topic
  and s.neighbour = u.neighbour
where f.failed is null and s.neighbour is null and not array_contains(w.covered, w.member)
"""
"""Only the root of the topic's sub-tree asks whether all members are covered."""
GAP_WAITS = """
select run_id, node_id, source, source_seq, case when status = 'open'
    then 'it is lacking: it has left the buffers, and its publisher has not repeated it yet'
    else 'it is lacking: it has left the buffers, and its publisher was never reached' end as reason
from state_gap
where guarantee = ''
"""
CLIENT_WAITS = """
select b.run_id, b.node_id, b.source, b.source_seq, 'the client has no edge broker' as reason
from state_metadata_buffer b
join state_repair r on r.run_id = b.run_id and r.node_id = b.node_id and r.role = 'client' and not r.is_level
left join state_delivered d on d.run_id = b.run_id and d.node_id = b.node_id and d.source = b.source
  and d.source_seq = b.source_seq
where b.event = 'published' and d.position is null
"""
WAITS = {
    "repair": CLIENT_WAITS, "entry_queue": ENTRY_QUEUE_WAITS, "hold": HOLD_WAITS, "pending": PENDING_WAITS,
    "gap": GAP_WAITS,
}  # fmt: skip
"""By the declaration whose rows wait."""
