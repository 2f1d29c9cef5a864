-- A client's own publications wait while the client has no edge broker.
select b.run_id, b.node_id, b.source, b.source_seq, 'the client has no edge broker' as reason
from state_metadata_buffer b
join state_repair r on r.run_id = b.run_id and r.node_id = b.node_id and r.role = 'client' and not r.is_level
left join state_delivered d on d.run_id = b.run_id and d.node_id = b.node_id and d.source = b.source
  and d.source_seq = b.source_seq
where b.event = 'published' and d.position is null
