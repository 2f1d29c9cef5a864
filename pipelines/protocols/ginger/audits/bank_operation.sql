-- The bank operations that replicas delivered: one row per replica and operation.
with first as (
  select run_id, node_id, topic, source, source_seq, min(position) as position
  from state_delivered
  group by run_id, node_id, topic, source, source_seq
)
select f.run_id, f.node_id, f.topic, f.position, f.source, f.source_seq, p.guarantee, p.content,
  r.protocol_start_balance as start_balance
from first f
join publication p on p.run_id = f.run_id and p.source = f.source and p.source_seq = f.source_seq
join parameter r on r.run_id = f.run_id
where get_json_object(p.content, '$.operation') is not null
