-- The deliveries of each client by key item, with their position in the order of the client's deliveries.
with first as (
  select run_id, node_id, topic, source, source_seq, min(position) as position
  from state_delivered
  group by run_id, node_id, topic, source, source_seq
)
select f.run_id, f.node_id, f.topic, f.source, f.source_seq, f.position, p.guarantee, explode(p.keys) as key_item
from first f
join publication p on p.run_id = f.run_id and p.source = f.source and p.source_seq = f.source_seq
