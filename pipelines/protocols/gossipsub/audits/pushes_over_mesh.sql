-- audit, is_unconditional: a node forwards publications over grafted links only
-- Rules S9 to S11. A row is a publication that a node other than its publisher pushes to a neighbour. The two nodes
-- have exchanged no GRAFT before, or a PRUNE follows the last GRAFT.
with pushed as (
  select run_id, get_json_object(body, '$.topic') as topic, src, dst, source, source_seq, sent_round as round
  from sent_message
  where kind = 'PUB' and src <> source
), latest as (
  select p.run_id, p.topic, p.src, p.dst, p.source, p.source_seq, p.round, max(g.round) as graft_round
  from pushed p
  left join grafted g on g.run_id = p.run_id and g.topic = p.topic and g.node_id = p.src and g.peer = p.dst
    and g.round <= p.round
  group by p.run_id, p.topic, p.src, p.dst, p.source, p.source_seq, p.round
)
select l.run_id, l.round, l.src as node_id, l.source, l.source_seq,
  concat('pushed to node ', l.dst, ', and no GRAFT came from there or went there') as detail
from latest l
where l.graft_round is null
union all
select l.run_id, l.round, l.src as node_id, l.source, l.source_seq,
  concat('pushed to node ', l.dst, ', which left the mesh in round ', max(p.round)) as detail
from latest l
join parted p on p.run_id = l.run_id and p.topic = l.topic and p.node_id = l.src and p.peer = l.dst
  and (p.round > l.graft_round or (p.round = l.graft_round and p.is_sent)) and p.round < l.round
group by l.run_id, l.round, l.src, l.dst, l.source, l.source_seq
