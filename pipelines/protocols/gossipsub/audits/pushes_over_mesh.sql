-- audit, is_unconditional: a node forwards publications over grafted links only
-- A row is a publication of another node, sent over a link without an earlier GRAFT in either direction.
with pushed as (
  select run_id, get_json_object(body, '$.topic') as topic, src, dst, source, source_seq, min(sent_round) as round
  from sent_message
  where kind = 'PUB' and src <> source
  group by run_id, get_json_object(body, '$.topic'), src, dst, source, source_seq
), grafted as (
  select run_id, topic, node_id, peer, min(round) as round
  from (
    select run_id, get_json_object(body, '$.topic') as topic, src as node_id, dst as peer, sent_round as round
    from sent_message
    where kind = 'GRAFT'
    union all
    select run_id, get_json_object(body, '$.topic') as topic, dst as node_id, src as peer, due_round as round
    from sent_message
    where kind = 'GRAFT' and fate = 'delivered'
  )
  group by run_id, topic, node_id, peer
)
select p.run_id, p.round, p.src as node_id, p.source, p.source_seq,
  concat('pushed to node ', p.dst, ', and no GRAFT came from there or went there') as detail
from pushed p
left join grafted g on g.run_id = p.run_id and g.topic = p.topic and g.node_id = p.src and g.peer = p.dst
  and g.round <= p.round
where g.run_id is null
