-- audit: a recovered node handles only messages of nodes that know its new incarnation
-- A recovered node handles a message only if the sender has received a message from the node's present incarnation
-- (rule R25).
with life as (
  select run_id, node_id, recovery_round as first_round,
    coalesce(lead(crash_round) over (partition by run_id, node_id order by incarnation), 9223372036854775807)
      as end_round
  from node_recovery
  where recovery_round is not null
)
select m.run_id, m.due_round as round, m.dst as node_id, m.source, m.source_seq,
  concat(m.kind, ' of node ', m.src, ' is handled, and was meant for an earlier incarnation') as detail
from sent_message m
join life l on l.run_id = m.run_id and l.node_id = m.dst and l.first_round <= m.due_round
  and m.due_round < l.end_round
left join sent_message h on h.run_id = m.run_id and h.src = m.dst and h.dst = m.src and h.fate = 'delivered'
  and h.sent_round >= l.first_round and h.due_round <= m.sent_round
where m.src <> m.dst and m.fate = 'delivered' and h.run_id is null
  and m.kind not in ('CON_REQUEST', 'SYN_REQUEST', 'JOIN_REQUEST')
