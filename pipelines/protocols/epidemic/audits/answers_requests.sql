-- audit, is_unconditional: a dispatcher answers requests for the events in its cache
-- Section 4, Figures 2 and 3, rule E7: an event that a REQUEST or a pull digest lists, and that the dispatcher has
-- cached. The audit checks runs in which all events are cached (setting caching). It checks a dispatcher until it has
-- received more than `buffer` events, because its cache has then discarded events. It does not check events that
-- arrived before the dispatcher's last crash.
with tagged as (
  select run_id, node_id, source, source_seq, pattern_id, number from counted
  union
  select run_id, node_id, node_id as source, source_seq, pattern_id, number from state_tag where number is not null
), asked as (
  select run_id, dst as node_id, src as requester, due_round as round, source, source_seq
  from request_entry
  where fate = 'delivered'
  union
  select e.run_id, e.dst as node_id, e.initiator as requester, e.due_round as round, e.event_source as source,
    t.source_seq
  from entry e
  join tagged t on t.run_id = e.run_id and t.node_id = e.dst and t.source = e.event_source
    and t.pattern_id = e.pattern_id and t.number = e.number
  where e.style <> 'push' and e.fate = 'delivered'
), had as (
  select run_id, node_id, source, source_seq, min(round) as round
  from arrival
  where fate = 'delivered'
  group by run_id, node_id, source, source_seq
), numbered as (
  select run_id, node_id, round, row_number() over (partition by run_id, node_id order by round) as n_events from had
), filled as (
  select n.run_id, n.node_id, min(n.round) as round
  from numbered n
  join parameter r on r.run_id = n.run_id and n.n_events > r.protocol_buffer
  group by n.run_id, n.node_id
)
select a.run_id, a.round, a.node_id, a.source, a.source_seq,
  concat('has it since round ', h.round, ', and does not answer node ', a.requester) as detail
from asked a
join parameter r on r.run_id = a.run_id and r.protocol_caching = 'all'
join had h on h.run_id = a.run_id and h.node_id = a.node_id and h.source = a.source and h.source_seq = a.source_seq
  and h.round <= a.round
left join filled f on f.run_id = a.run_id and f.node_id = a.node_id and f.round <= a.round
left join fault_event c on c.run_id = a.run_id and c.kind = 'crash' and c.node_id = a.node_id
  and c.round between h.round and a.round
left join sent_message m on m.run_id = a.run_id and m.kind = 'REPLY' and m.src = a.node_id and m.dst = a.requester
  and m.sent_round = a.round and m.source = a.source and m.source_seq = a.source_seq
where f.run_id is null and c.run_id is null and m.run_id is null
