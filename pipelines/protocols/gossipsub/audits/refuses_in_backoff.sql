-- audit, is_unconditional: a GRAFT within a backoff is answered with PRUNE
-- Rule S10.
with early as (
  select distinct g.run_id, g.topic, g.node_id, g.peer, g.round
  from grafted g
  join pruned p on p.run_id = g.run_id and p.topic = g.topic and p.node_id = g.node_id and p.peer = g.peer
    and p.round < g.round and g.round < p.round + p.backoff_rounds
  left join fault_event x on x.run_id = g.run_id and x.node_id = g.node_id and x.kind = 'crash'
    and x.round between p.round and g.round
  where not g.is_sent and x.run_id is null
)
select distinct e.run_id, e.round, e.node_id,
  concat('does not refuse the GRAFT of node ', e.peer, ' within its backoff') as detail
from early e
join joined j on j.run_id = e.run_id and j.node_id = e.node_id and j.topic = e.topic and j.issued_round < e.round
  and e.round < j.until_round
left join sent_message m on m.run_id = e.run_id and m.kind = 'PRUNE' and m.src = e.node_id and m.dst = e.peer
  and m.sent_round = e.round and get_json_object(m.body, '$.topic') = e.topic
where m.run_id is null
