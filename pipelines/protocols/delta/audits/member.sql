-- The nodes that have joined. Nodes that are down are included, because a crash changes no view.
select distinct s.run_id, s.node_id, cast(r.protocol_delta as int) as delta
from node_status s
join parameter r on r.run_id = s.run_id
where s.status = 'VALID_JOINED'
