-- audit: a node sends multicast messages over a bypass only after the other end has answered
-- Rule R20. An answer is a STATUS, CON_REQUEST, SYN_REQUEST or PAR_TOP.
with heard as (
  select run_id, dst as node_id, src as peer, min(due_round) as round
  from sent_message
  where kind in ('STATUS', 'CON_REQUEST', 'SYN_REQUEST', 'PAR_TOP') and fate = 'delivered'
  group by run_id, dst, src
)
select m.run_id, m.sent_round as round, m.src as node_id, m.source, m.source_seq,
  concat(m.kind, ' to node ', m.dst, ', which has not answered') as detail
from sent_message m
left join link l on l.run_id = m.run_id and l.src = m.src and l.dst = m.dst
left join heard h on h.run_id = m.run_id and h.node_id = m.src and h.peer = m.dst and h.round <= m.sent_round
where m.kind in ('J', 'SUB', 'UNSUB', 'PUB', 'REJOIN') and m.src <> m.dst and l.run_id is null and h.run_id is null
