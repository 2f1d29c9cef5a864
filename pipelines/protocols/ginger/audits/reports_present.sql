-- audit, is_dated: a broker reports only locks of itself, its clients, and nodes that a present child has reported
-- Rule G33. A report of a child does not count after the failure detector has reported the child.
with report as (
  select run_id, message_id, src, dst, kind, source, source_seq, sent_round, due_round, fate,
    explode(from_json(get_json_object(body, '$.covered'), 'array<bigint>')) as covered
  from sent_message
  where kind in ('Metadata', 'TotalAck')
), failure as (
  select run_id, dst as node_id, cast(get_json_object(body, '$.peer') as bigint) as child, due_round as round
  from sent_message
  where kind = 'NeighborDown' and fate = 'delivered'
), present as (
  select r.run_id, r.message_id, r.covered
  from report r
  join report c on c.run_id = r.run_id and c.dst = r.src and c.source = r.source and c.source_seq = r.source_seq
    and c.covered = r.covered and c.fate = 'delivered' and c.due_round <= r.sent_round
  left join failure f on f.run_id = c.run_id and f.node_id = c.dst and f.child = c.src and f.round > c.due_round
    and f.round < r.sent_round
  where f.run_id is null
), client as (
  select l.run_id, l.src as node_id, l.dst as client, 0 as from_round
  from link l
  join node n on n.run_id = l.run_id and n.node_id = l.dst and n.role = 'client'
  union all
  select p.run_id, p.src, p.dst, p.sent_round
  from sent_message p
  join node n on n.run_id = p.run_id and n.node_id = p.dst and n.role = 'client'
  where p.kind = 'ParentResponse' and get_json_object(p.body, '$.answer') = 'accepted'
)
select distinct r.run_id, r.sent_round as round, r.src as node_id, r.source, r.source_seq,
  concat('reports to node ', r.dst, ' that node ', r.covered, ' has locked the key items, which no present child ',
    'has reported') as detail
from report r
left join present p on p.run_id = r.run_id and p.message_id = r.message_id and p.covered = r.covered
left join client c on c.run_id = r.run_id and c.node_id = r.src and c.client = r.covered
  and c.from_round <= r.sent_round
where r.covered <> r.src and p.run_id is null and c.run_id is null
