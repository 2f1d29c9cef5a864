-- audit, is_unconditional: a GRAFT within a backoff is answered with PRUNE
-- Rule S10.
with crashed as (select run_id, node_id, round from fault_event where kind = 'crash'), grafted as (
  select run_id, get_json_object(body, '$.topic') as topic, dst as node_id, src as peer, due_round as round
  from sent_message
  where kind = 'GRAFT' and fate = 'delivered'
), early as (
  select distinct g.run_id, g.topic, g.node_id, g.peer, g.round
  from grafted g
  join pruned p on p.run_id = g.run_id and p.topic = g.topic and p.node_id = g.node_id and p.peer = g.peer
    and p.round < g.round and g.round < p.round + p.backoff_rounds
  left join crashed x on x.run_id = g.run_id and x.node_id = g.node_id and x.round >= p.round and x.round <= g.round
  where x.run_id is null
), joined as (
  select distinct run_id, subscriber as node_id, regexp_extract(predicate, "topic = '([^']*)'", 1) as topic,
    issued_round, coalesce(unsubscribed_round, 9223372036854775807) as until_round
  from subscription
)
select distinct e.run_id, e.round, e.node_id,
  cast(null as bigint) as source, cast(null as bigint) as source_seq,
  concat('does not refuse the GRAFT of node ', e.peer, ' within its backoff') as detail
from early e
join joined j on j.run_id = e.run_id and j.node_id = e.node_id and j.topic = e.topic and j.issued_round < e.round
  and e.round < j.until_round
left join sent_message m on m.run_id = e.run_id and m.kind = 'PRUNE' and m.src = e.node_id and m.dst = e.peer
  and m.sent_round = e.round and get_json_object(m.body, '$.topic') = e.topic
where m.run_id is null
