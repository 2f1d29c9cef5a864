-- audit, is_unconditional: gossip to a part of the neighbours does not always go to the same neighbours
-- Rule S19. A row is a node that gossips about a topic to the same neighbours in 40 or more heartbeats. The topic has
-- other neighbours outside the mesh. If the draws are independent, the probability of a row is at most 2^-39. The audit
-- counts heartbeats before faults of the node, and neighbours before their faults.
with told as (
  select distinct run_id, src as node_id, dst, sent_round, get_json_object(body, '$.topic') as topic
  from sent_message
  where kind = 'IHAVE'
), beat as (
  select run_id, node_id, topic, sent_round, count(1) as n_told from told group by run_id, node_id, topic, sent_round
), around as (
  select b.run_id, b.node_id, b.topic, b.sent_round, b.n_told, count(distinct s.neighbour) as n_standing
  from beat b
  join standing s on s.run_id = b.run_id and s.node_id = b.node_id and s.topic = b.topic
    and s.since_round < b.sent_round and b.sent_round < s.until_round
  group by b.run_id, b.node_id, b.topic, b.sent_round, b.n_told
), choosing as (
  select a.run_id, a.node_id, a.topic, a.sent_round, a.n_told
  from around a
  join parameter r on r.run_id = a.run_id
  where a.n_told < a.n_standing - r.protocol_d_hi - r.protocol_d_out
)
select c.run_id, max(c.sent_round) as round, c.node_id,
  concat('topic ', c.topic, ': gossips to the same ', max(c.n_told), ' neighbours in ', count(distinct c.sent_round),
    ' heartbeats') as detail
from choosing c
join told t on t.run_id = c.run_id and t.node_id = c.node_id and t.topic = c.topic and t.sent_round = c.sent_round
group by c.run_id, c.node_id, c.topic
having count(distinct c.sent_round) >= 40 and count(distinct t.dst) = max(c.n_told)
