-- Messages in table entry_queue wait for a locked key item, or behind an earlier message that shares a key item.
select q.run_id, q.node_id, q.source, q.source_seq,
  coalesce(concat('key item ', l.key_item, ' is locked by call ', l.source_seq, ' of ', n.name),
    'a message before it waits for one of its key items') as reason
from state_entry_queue q
left join state_locked l on l.run_id = q.run_id and l.node_id = q.node_id and l.topic = q.topic
  and array_contains(q.keys, l.key_item) and q.guarantee <> 'total'
left join node n on n.run_id = l.run_id and n.node_id = l.source
