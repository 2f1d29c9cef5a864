-- audit, is_unconditional: a flooded publication goes to all neighbours that have announced the topic
-- Rule S6, in runs with `flood_publish`.
with late as (
  select run_id, src as neighbour, dst as node_id, max(due_round) as due_round
  from sent_message
  where kind = 'ANNOUNCE'
  group by run_id, src, dst
)
select p.run_id, p.issued_round as round, p.source as node_id, p.source, p.source_seq,
  concat('is not pushed to node ', s.neighbour, ', which has announced the topic') as detail
from publication p
join parameter r on r.run_id = p.run_id
join standing s on s.run_id = p.run_id and s.topic = p.topic and s.node_id = p.source
  and s.since_round < p.issued_round
left join late l on l.run_id = p.run_id and l.node_id = p.source and l.neighbour = s.neighbour
left join sent_message m on m.run_id = p.run_id and m.kind = 'PUB' and m.src = p.source and m.dst = s.neighbour
  and m.source = p.source and m.source_seq = p.source_seq
where r.protocol_flood_publish and m.run_id is null
  and coalesce(l.due_round, -1) < p.issued_round
