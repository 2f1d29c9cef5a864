-- A message that has left all buffers, and that a node lacks, is published again.
select run_id, round, node_id, cast(null as bigint) as source, cast(null as bigint) as source_seq,
  'gave up messages that had left the buffers' as detail
from node_status
where status = 'MESSAGE_LOST'
