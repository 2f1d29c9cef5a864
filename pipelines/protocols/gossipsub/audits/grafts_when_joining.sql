-- audit, is_unconditional: a node that joins a topic grafts D of the neighbours that have announced it
-- Rule S3. The audit does not count neighbours that sent or received a PRUNE before that round, because they may be in
-- a backoff. It considers neither nodes nor neighbours after their first fault.
with joins as (
  select distinct s.run_id, s.node_id, s.topic, s.issued_round as round
  from joined s
  left join joined o on o.run_id = s.run_id and o.node_id = s.node_id and o.topic = s.topic
    and o.subscription_id <> s.subscription_id and o.issued_round < s.issued_round and s.issued_round <= o.until_round
  left join first_fault u on u.run_id = s.run_id and u.node_id = s.node_id and u.round <= s.issued_round
  where o.run_id is null and u.run_id is null
), told as (
  select m.run_id, m.dst as node_id, m.src as peer, get_json_object(m.body, '$.topic') as topic, m.due_round,
    m.message_id, get_json_object(m.body, '$.is_joined') as is_joined
  from sent_message m
  where m.kind = 'ANNOUNCE' and m.fate = 'delivered'
), newest as (
  select j.run_id, j.node_id, j.topic, j.round, t.peer, t.is_joined,
    row_number() over (partition by j.run_id, j.node_id, j.topic, j.round, t.peer
      order by t.due_round desc, t.message_id desc) as age
  from joins j
  join told t on t.run_id = j.run_id and t.node_id = j.node_id and t.topic = j.topic and t.due_round <= j.round
), known as (
  select n.run_id, n.node_id, n.topic, n.round, count(distinct n.peer) as n_known
  from newest n
  left join pruned p on p.run_id = n.run_id and p.topic = n.topic and p.node_id = n.node_id and p.peer = n.peer
    and p.round <= n.round
  left join first_fault u on u.run_id = n.run_id and u.node_id = n.peer and u.round <= n.round
  where n.age = 1 and n.is_joined = 'true' and p.run_id is null and u.run_id is null
  group by n.run_id, n.node_id, n.topic, n.round
), grafted as (
  select run_id, src as node_id, get_json_object(body, '$.topic') as topic, sent_round as round,
    count(distinct dst) as n_grafted
  from sent_message
  where kind = 'GRAFT'
  group by run_id, src, get_json_object(body, '$.topic'), sent_round
)
select k.run_id, k.round, k.node_id,
  concat('joins topic ', k.topic, ', knows ', k.n_known, ' neighbours of the topic, and grafts ',
    coalesce(g.n_grafted, 0)) as detail
from known k
join parameter r on r.run_id = k.run_id
left join grafted g on g.run_id = k.run_id and g.node_id = k.node_id and g.topic = k.topic and g.round = k.round
where coalesce(g.n_grafted, 0) < least(k.n_known, r.protocol_d)
