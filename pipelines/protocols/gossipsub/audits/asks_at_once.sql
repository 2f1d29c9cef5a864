-- audit, is_unconditional: a node requests each missing publication that an IHAVE names
-- Rule S15.
with told as (
  select run_id, dst as node_id, src as sender, due_round, topic, id
  from gossip_id
  where kind = 'IHAVE' and fate = 'delivered'
)
select distinct t.run_id, t.due_round as round, t.node_id, t.id.source as source, t.id.source_seq as source_seq,
  concat('does not ask node ', t.sender, ' for it, and lacks it') as detail
from told t
join joined s on s.run_id = t.run_id and s.node_id = t.node_id and s.topic = t.topic and s.issued_round < t.due_round
  and t.due_round < s.until_round
left join had h on h.run_id = t.run_id and h.node_id = t.node_id and h.source = t.id.source
  and h.source_seq = t.id.source_seq and h.round <= t.due_round
left join gossip_id a on a.run_id = t.run_id and a.kind = 'IWANT' and a.src = t.node_id and a.dst = t.sender
  and a.sent_round = t.due_round and a.id.source = t.id.source and a.id.source_seq = t.id.source_seq
where h.run_id is null and a.run_id is null
