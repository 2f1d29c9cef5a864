-- audit, is_unconditional: a publication goes to all neighbours in the mesh, except its sender and its publisher
-- Rules S7 and S9. A row is a neighbour in a node's mesh that gets no copy of a publication. The node has received the
-- first copy, or has published the publication without `flood_publish`.
with arrived as (
  select run_id, dst as node_id, src as sender, source, source_seq, due_round as round,
    get_json_object(body, '$.topic') as topic,
    row_number() over (partition by run_id, dst, source, source_seq order by due_round, message_id) as number
  from sent_message
  where kind in ('PUB', 'REPLY') and fate in ('delivered', 'duplicate')
), taken as (
  select run_id, node_id, sender, source, source_seq, round, topic
  from arrived
  where number = 1 and node_id <> source
  union all
  select p.run_id, p.source as node_id, p.source as sender, p.source, p.source_seq, p.issued_round as round, p.topic
  from publication p
  join parameter r on r.run_id = p.run_id
  where not r.protocol_flood_publish
)
select distinct t.run_id, t.round, t.node_id, t.source, t.source_seq,
  concat('is not pushed to node ', h.peer, ', which is in the mesh since round ', h.from_round) as detail
from taken t
join joined s on s.run_id = t.run_id and s.node_id = t.node_id and s.topic = t.topic and s.issued_round < t.round
  and t.round < s.until_round
join in_mesh h on h.run_id = t.run_id and h.node_id = t.node_id and h.topic = t.topic and h.from_round < t.round
  and t.round < h.until_round and h.peer <> t.sender and h.peer <> t.source
left join sent_message m on m.run_id = t.run_id and m.kind = 'PUB' and m.src = t.node_id and m.dst = h.peer
  and m.sent_round = t.round and m.source = t.source and m.source_seq = t.source_seq
where m.run_id is null
