-- audit: clients deliver a message after all messages on its key items that its publisher knew
-- At every client a publication follows the messages on a shared key item that its publisher published or delivered
-- earlier (3.2). A row is a delivery of a publication before the delivery of one of these messages. In a round a client
-- first delivers and then publishes.
with published as (
  select run_id, source as node_id, topic, source, source_seq, (issued_round + 1) * 1048576 - 1 as position,
    explode(keys) as key_item
  from publication
), log as (
  select run_id, node_id, topic, key_item, source, source_seq, position, 0 as is_own from key_item
  union all
  select run_id, node_id, topic, key_item, source, source_seq, position, 1 as is_own from published
), followed as (
  select l.run_id, l.node_id as publisher, l.topic, l.key_item, l.source, l.source_seq, l.is_own,
    i.node_id, i.position,
    max(i.position) over (
      partition by l.run_id, l.node_id, l.topic, l.key_item, i.node_id order by l.position, l.is_own, l.source_seq
      rows between unbounded preceding and 1 preceding
    ) as last_before
  from log l
  join key_item i on i.run_id = l.run_id and i.topic = l.topic and i.key_item = l.key_item
    and i.source = l.source and i.source_seq = l.source_seq
)
select f.run_id, f.node_id, f.source, f.source_seq,
  concat('key item ', f.key_item, ' of topic ', f.topic, ': delivered before ', n.name, ' ', b.source_seq,
    ', which its publisher knew') as detail
from followed f
join key_item b on b.run_id = f.run_id and b.node_id = f.node_id and b.topic = f.topic and b.key_item = f.key_item
  and b.position = f.last_before
join node n on n.run_id = b.run_id and n.node_id = b.source
where f.is_own = 1 and f.last_before > f.position
