-- audit: a publication reaches every node that does not crash
-- Runs with `max_hops` are left out, because their nodes store no ids of publications.
select p.run_id, p.issued_round as round, n.node_id, p.source, p.source_seq, 'never came to this node' as detail
from publication p
join parameter r on r.run_id = p.run_id and r.protocol_max_hops is null
join node n on n.run_id = p.run_id
left join (select distinct run_id, node_id from fault_event where kind = 'crash') c
  on c.run_id = p.run_id and c.node_id = n.node_id
left join state_seen s on s.run_id = p.run_id and s.node_id = n.node_id
  and s.source = p.source and s.source_seq = p.source_seq
left join busy_run b on b.run_id = p.run_id
where s.source is null and c.run_id is null and b.run_id is null
