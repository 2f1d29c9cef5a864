-- Messages in table hold wait until the repair of the broker ends.
select h.run_id, h.node_id, h.source, h.source_seq,
  coalesce(concat('messages are held until the messages that ', n.name, ' missed have been exchanged'),
    'messages are held until the broker has a new parent') as reason
from state_hold h
left join state_awaited a on a.run_id = h.run_id and a.node_id = h.node_id
left join node n on n.run_id = a.run_id and n.node_id = a.partner
where h.kind = 'Metadata'
