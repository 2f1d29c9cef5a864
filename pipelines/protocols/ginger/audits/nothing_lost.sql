-- The publisher repeats a message that a node lacks and that has left all buffers. With status MESSAGE_LOST a node gave
-- up messages.
select run_id, round, node_id, cast(null as bigint) as source, cast(null as bigint) as source_seq,
  'gave up messages that had left the buffers' as detail
from node_status
where status = 'MESSAGE_LOST'
