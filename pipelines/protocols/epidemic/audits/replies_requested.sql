-- audit, is_unconditional: a dispatcher answers only with events that were requested
-- Section 4, Figures 2 and 3, rule E7. In the round of the REPLY, a REQUEST of the receiver or a pull digest of the
-- receiver arrives, and lists the event.
with answer as (
  select run_id, message_id, src as node_id, dst as requester, sent_round, source, source_seq,
    explode(split(get_json_object(body, '$.id'), ':')) as tag
  from sent_message
  where kind = 'REPLY'
), pulled as (
  select distinct a.run_id, a.message_id
  from answer a
  join entry e on e.run_id = a.run_id and e.dst = a.node_id and e.initiator = a.requester and e.style <> 'push'
    and e.fate = 'delivered' and e.due_round = a.sent_round and e.event_source = a.source
    and a.tag = concat('P', e.pattern_id, '-', e.number)
)
select distinct a.run_id, a.sent_round as round, a.node_id, a.source, a.source_seq,
  concat('answers node ', a.requester, ' with it, and no request for it arrives in this round') as detail
from answer a
left join pulled p on p.run_id = a.run_id and p.message_id = a.message_id
left join request_entry q on q.run_id = a.run_id and q.fate = 'delivered' and q.dst = a.node_id and q.src = a.requester
  and q.due_round = a.sent_round and q.source = a.source and q.source_seq = a.source_seq
where p.run_id is null and q.run_id is null
