-- Messages in table entry_queue wait for one of three events: their key items are unlocked, an earlier message with a
-- common key item leaves the queue, or their broker becomes current (rule G34).
with failed as (
  select run_id, node_id, collect_list(failed) as brokers from state_failed group by run_id, node_id
), member as (
  select m.run_id, m.node_id, m.topic, array_contains(m.members, m.node_id) as is_member,
    array_except(m.members, m.clients) as brokers, coalesce(f.brokers, cast(array() as array<bigint>)) as failed
  from state_member m
  left join failed f on f.run_id = m.run_id and f.node_id = m.node_id
), current as (
  select m.run_id, m.node_id, m.topic
  from member m
  join state_repair r on r.run_id = m.run_id and r.node_id = m.node_id
  left join state_topic_join j on j.run_id = m.run_id and j.node_id = m.node_id and j.topic = m.topic
  where (m.is_member and not r.is_new) or coalesce(j.is_current, false)
    or (size(m.brokers) > 0 and size(array_except(m.brokers, m.failed)) = 0)
)
select q.run_id, q.node_id, q.source, q.source_seq,
  case
    when l.run_id is not null then concat('key item ', l.key_item, ' is locked by call ', l.source_seq, ' of ', n.name)
    when c.run_id is null then concat('the broker is not yet connected to a current broker of topic ', q.topic)
    else 'an earlier message waits for one of its key items'
  end as reason
from state_entry_queue q
left join state_locked l on l.run_id = q.run_id and l.node_id = q.node_id and l.topic = q.topic
  and array_contains(q.keys, l.key_item) and q.guarantee <> 'total'
left join node n on n.run_id = l.run_id and n.node_id = l.source
left join current c on c.run_id = q.run_id and c.node_id = q.node_id and c.topic = q.topic
