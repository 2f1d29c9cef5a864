-- audit, is_unconditional: a node sends nothing to a neighbour that it knows to be down
-- Rule S5. A row is a message to a crashed neighbour between the report of the crash and the next message from the
-- neighbour. If a HELLO arrives after the crash of its sender, the failure detector starts again, so its report comes
-- later. The audit checks the messages of a node before its first fault.
with watched as (
  select c.run_id, c.node_id as peer, l.src as node_id, c.crash_round, max(coalesce(h.due_round, c.crash_round))
    + greatest(l.latency_rounds, b.latency_rounds) + r.protocol_detection_rounds as known_round
  from node_recovery c
  join parameter r on r.run_id = c.run_id
  join link l on l.run_id = c.run_id and l.dst = c.node_id
  join link b on b.run_id = c.run_id and b.src = c.node_id and b.dst = l.src
  left join sent_message h on h.run_id = c.run_id and h.src = c.node_id and h.dst = l.src and h.kind = 'HELLO'
    and h.fate = 'delivered' and h.sent_round < c.crash_round and h.due_round >= c.crash_round
  group by c.run_id, c.node_id, l.src, c.crash_round, l.latency_rounds, b.latency_rounds, r.protocol_detection_rounds
), heard as (
  select p.run_id, p.peer, p.node_id, p.crash_round, p.known_round, min(m.due_round) as heard_round
  from watched p
  left join sent_message m on m.run_id = p.run_id and m.src = p.peer and m.dst = p.node_id
    and (m.sent_round >= p.crash_round or m.due_round >= p.known_round)
  group by p.run_id, p.peer, p.node_id, p.crash_round, p.known_round
)
select m.run_id, m.sent_round as round, m.src as node_id, m.source, m.source_seq,
  concat('sends ', m.kind, ' to node ', m.dst, ', which crashed in round ', h.crash_round) as detail
from heard h
join sent_message m on m.run_id = h.run_id and m.src = h.node_id and m.dst = h.peer and m.sent_round > h.known_round
  and m.sent_round < coalesce(h.heard_round, 9223372036854775807)
left join first_fault u on u.run_id = m.run_id and u.node_id = m.src and u.round <= m.sent_round
where u.run_id is null and m.kind in ('PUB', 'GRAFT', 'PRUNE', 'IHAVE')
