-- audit, is_unconditional: a dispatcher requests only events that it lacks and that a push digest lists
-- Section 4.1, Figure 2, rule E7. The digest arrives in the round of the REQUEST, and is about a pattern of the
-- dispatcher's clients. The dispatcher has neither published nor received the requested event.
with listed as (
  select distinct e.run_id, e.dst as node_id, e.initiator, e.due_round, e.event_source, e.number
  from entry e
  join client_pattern w on w.run_id = e.run_id and w.node_id = e.dst and w.pattern_id = e.of_pattern
    and w.issued_round <= e.due_round and e.due_round <= w.until_round
  where e.style = 'push' and e.fate = 'delivered'
), had as (
  select run_id, node_id, source, source_seq, min(round) as round
  from arrival
  group by run_id, node_id, source, source_seq
)
select distinct a.run_id, a.sent_round as round, a.src as node_id, a.source, a.source_seq,
  concat('requests it from node ', a.dst, case when l.run_id is null
    then ', and no digest of this node about a pattern of its clients lists it'
    else concat(', and has it since round ', h.round) end) as detail
from request_entry a
left join listed l on l.run_id = a.run_id and l.node_id = a.src and l.initiator = a.dst
  and l.due_round = a.sent_round and l.event_source = a.source and l.number = a.source_seq
left join had h on h.run_id = a.run_id and h.node_id = a.src and h.source = a.source
  and h.source_seq = a.source_seq and h.round <= a.sent_round
where l.run_id is null or h.run_id is not null
