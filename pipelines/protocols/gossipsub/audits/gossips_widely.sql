-- audit, is_unconditional: gossip goes to at least D_lazy neighbours outside the mesh
-- Rule S14. If there are fewer neighbours outside the mesh, gossip goes to all of them.
with told as (
  select run_id, src as node_id, sent_round, get_json_object(body, '$.topic') as topic, count(distinct dst) as n_told
  from sent_message
  where kind = 'IHAVE'
  group by run_id, src, sent_round, get_json_object(body, '$.topic')
), around as (
  select t.run_id, t.node_id, t.topic, t.sent_round, t.n_told, count(1) as n_standing
  from told t
  join standing s on s.run_id = t.run_id and s.node_id = t.node_id and s.topic = t.topic
    and s.since_round < t.sent_round and t.sent_round < s.until_round
  group by t.run_id, t.node_id, t.topic, t.sent_round, t.n_told
)
select a.run_id, a.sent_round as round, a.node_id,
  concat('gossips to ', a.n_told, ' of ', a.n_standing, ' neighbours') as detail
from around a
join parameter r on r.run_id = a.run_id
where a.n_told < least(r.protocol_d_lazy,
  a.n_standing - r.protocol_d_hi - r.protocol_d_out)
