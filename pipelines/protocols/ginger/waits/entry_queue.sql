-- Messages in table entry_queue wait for a locked key item, behind an earlier message that shares a key item, or until
-- their broker is connected to the sub-tree of their topic.
select q.run_id, q.node_id, q.source, q.source_seq,
  case
    when l.run_id is not null then concat('key item ', l.key_item, ' is locked by call ', l.source_seq, ' of ', n.name)
    when b.run_id is null and (r.is_new or not coalesce(array_contains(m.members, q.node_id), false))
      then concat('the broker is not yet connected to the sub-tree of ', q.topic)
    else 'a message before it waits for one of its key items'
  end as reason
from state_entry_queue q
left join state_locked l on l.run_id = q.run_id and l.node_id = q.node_id and l.topic = q.topic
  and array_contains(q.keys, l.key_item) and q.guarantee <> 'total'
left join node n on n.run_id = l.run_id and n.node_id = l.source
left join state_repair r on r.run_id = q.run_id and r.node_id = q.node_id
left join state_member m on m.run_id = q.run_id and m.node_id = q.node_id and m.topic = q.topic
left join (
  select distinct run_id, node_id, topic from state_subscriber where relationship = 'broker'
) b on b.run_id = q.run_id and b.node_id = q.node_id and b.topic = q.topic
