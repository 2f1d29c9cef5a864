-- audit, is_unconditional: a flooded publication goes to all neighbours that have announced the topic
-- Rule S6, in runs with `flood_publish`.
select p.run_id, p.issued_round as round, p.source as node_id, p.source, p.source_seq,
  concat('is not pushed to node ', s.neighbour, ', which has announced the topic') as detail
from publication p
join parameter r on r.run_id = p.run_id
join standing s on s.run_id = p.run_id and s.topic = p.topic and s.node_id = p.source
  and s.since_round < p.issued_round and p.issued_round < s.until_round
left join sent_message m on m.run_id = p.run_id and m.kind = 'PUB' and m.src = p.source and m.dst = s.neighbour
  and m.source = p.source and m.source_seq = p.source_seq
where r.protocol_flood_publish and m.run_id is null
