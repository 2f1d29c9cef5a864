-- A row is a neighbour that a node has grafted: the neighbour is in the node's mesh in all rounds between `from_round`
-- and `until_round`, both excluded. Nodes with faults, and neighbours with faults, are left out.
with unsteady as (
  select distinct run_id, node_id from fault_event where node_id is not null
), grafted as (
  select m.run_id, get_json_object(m.body, '$.topic') as topic, m.src as node_id, m.dst as peer, m.sent_round as round
  from sent_message m
  left join unsteady u on u.run_id = m.run_id and u.node_id in (m.src, m.dst)
  where m.kind = 'GRAFT' and u.run_id is null
), parted as (
  select run_id, topic, node_id, peer, round from pruned
  union all
  select run_id, get_json_object(body, '$.topic') as topic, dst as node_id, src as peer, due_round as round
  from sent_message
  where kind = 'ANNOUNCE' and fate = 'delivered' and get_json_object(body, '$.is_joined') = 'false'
)
select g.run_id, g.topic, g.node_id, g.peer, g.round as from_round,
  coalesce(min(p.round), 9223372036854775807) as until_round
from grafted g
left join parted p on p.run_id = g.run_id and p.topic = g.topic and p.node_id = g.node_id and p.peer = g.peer
  and p.round >= g.round
group by g.run_id, g.topic, g.node_id, g.peer, g.round
