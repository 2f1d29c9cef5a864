-- audit: at the end of a quiescent run no key item is locked and no message waits
-- A row is a locked key item, a message that is pending, missing or in a queue, or an exchange that is incomplete.
with waiting as (
  select run_id, node_id, source, source_seq, concat('still pending on topic ', topic) as detail
  from state_pending
  union all
  select run_id, node_id, source, source_seq, concat('still waits to enter topic ', topic) as detail
  from state_entry_queue
  union all
  select run_id, node_id, source, source_seq, concat('still holds ', kind) as detail
  from state_hold
  union all
  select a.run_id, a.node_id, cast(null as bigint) as source, cast(null as bigint) as source_seq,
    concat('still awaits the missing messages of ', n.name) as detail
  from state_awaited a join node n on n.run_id = a.run_id and n.node_id = a.partner
  union all
  select p.run_id, p.node_id, cast(null as bigint) as source, cast(null as bigint) as source_seq,
    concat('still waits for messages that have left the buffer of ', n.name) as detail
  from state_parked p join node n on n.run_id = p.run_id and n.node_id = p.partner
  union all
  select run_id, node_id, source, source_seq, 'lacks a message that has left the buffers' as detail
  from state_gap where status = 'given_up'
  union all
  select run_id, node_id, source, source_seq, concat('still locks key item ', key_item, ' of topic ', topic) as detail
  from state_locked
)
select w.run_id, w.node_id, w.source, w.source_seq, w.detail
from waiting w
join quiet_run q on q.run_id = w.run_id
