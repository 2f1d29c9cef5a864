-- In which rounds may each client publish or subscribe on a topic with an owner, according to the scenario?
-- One row per run, topic, client, role and registration (protocol repository). A repository learns of a registration
-- later, from the owner's event or from gossip.
-- :node_id the client
-- :role role of the client: publisher or subscriber
-- :from_round first round of the authorisation; -1: the scenario registers the client
-- :end_round round of the deregister call; null: the authorisation does not end
-- :is_certain whether the registration survives every crash of the owner. True in two cases: the scenario registers the
--   client; or the owner does not crash between its call and the arrival of an R2C-Confirm for this or a later
--   registration of the client
with listed as (
  select run_id, topic, 'publisher' as role, explode(publishers) as name from topic_owner
  union all
  select run_id, topic, 'subscriber' as role, explode(subscribers) as name from topic_owner
), action as (
  select l.run_id, l.topic, n.node_id, l.role, cast(-1 as bigint) as round, cast(0 as bigint) as source_seq, true as is_granted
  from listed l
  join node n on n.run_id = l.run_id and n.name = l.name
  union all
  select run_id, coalesce(topic, '') as topic, peer + 0 as node_id, concat(role, '') as role, round + 0 as round,
    source_seq + 0 as source_seq, kind = 'register' as is_granted
  from issued_call
  where kind in ('register', 'deregister')
), answer as (
  select run_id, dst as owner, get_json_object(body, '$.topic') as topic, due_round,
    cast(get_json_object(body, '$.client') as bigint) as client, get_json_object(body, '$.role') as role,
    cast(get_json_object(body, '$.number') as bigint) as number
  from message
  where kind = 'R2C-Confirm' and fate = 'delivered'
), period as (
  select g.run_id, g.topic, g.node_id, c.name, g.role, g.round as from_round, min(v.round) as end_round
  from action g
  join node c on c.run_id = g.run_id and c.node_id = g.node_id
  left join action v on v.run_id = g.run_id and v.topic = g.topic and v.node_id = g.node_id and v.role = g.role
    and not v.is_granted and (v.round > g.round or (v.round = g.round and v.source_seq > g.source_seq))
  where g.is_granted
  group by g.run_id, g.topic, g.node_id, c.name, g.role, g.round
)
select p.run_id, p.topic, p.node_id, p.name, p.role, p.from_round, p.end_round,
  p.from_round < 0 or count(n.node_id) = 0 or coalesce(min(c.due_round) < min(n.crash_round), false) as is_certain
from period p
left join topic_owner o on o.run_id = p.run_id and o.topic = p.topic
left join node_recovery n on n.run_id = p.run_id and n.node_id = o.owner
  and (n.recovery_round is null or n.recovery_round > p.from_round)
left join answer c on c.run_id = p.run_id and c.topic = p.topic and c.owner = o.owner and c.client = p.node_id
  and c.role = p.role and c.number >= p.from_round and (p.end_round is null or c.number < p.end_round)
group by p.run_id, p.topic, p.node_id, p.name, p.role, p.from_round, p.end_round
