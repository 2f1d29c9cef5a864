-- audit, is_unconditional: a dispatcher requests only events that it lacks and that a push digest lists
-- Section 4.1, Figure 2, rule E7. The digest arrives in the round of the REQUEST, and is about a pattern of the
-- dispatcher's clients. The dispatcher has neither published nor received the requested event.
with asked as (
  select run_id, src as node_id, dst as initiator, sent_round, explode(
    from_json(get_json_object(body, '$.digest'), 'array<struct<source:bigint,number:bigint>>')) as of
  from sent_message
  where kind = 'REQUEST'
), listed as (
  select distinct e.run_id, e.dst as node_id, e.initiator, e.due_round, e.event_source, e.number
  from entry e
  join client_pattern w on w.run_id = e.run_id and w.node_id = e.dst and w.pattern_id = e.of_pattern
    and w.issued_round <= e.due_round and e.due_round <= w.until_round
  where e.style = 'push' and e.fate = 'delivered'
), had as (
  select run_id, dst as node_id, source, source_seq, min(due_round) as round
  from sent_message
  where kind in ('EVENT', 'REPLY') and fate in ('delivered', 'duplicate')
  group by run_id, dst, source, source_seq
  union all
  select run_id, source as node_id, source, source_seq, issued_round as round from publication
)
select distinct a.run_id, a.sent_round as round, a.node_id, a.of.source as source, a.of.number as source_seq,
  concat('requests it from node ', a.initiator, case when l.run_id is null
    then ', and no digest of this node about a pattern of its clients lists it'
    else concat(', and has it since round ', h.round) end) as detail
from asked a
left join listed l on l.run_id = a.run_id and l.node_id = a.node_id and l.initiator = a.initiator
  and l.due_round = a.sent_round and l.event_source = a.of.source and l.number = a.of.number
left join had h on h.run_id = a.run_id and h.node_id = a.node_id and h.source = a.of.source
  and h.source_seq = a.of.number and h.round <= a.sent_round
where l.run_id is null or h.run_id is not null
