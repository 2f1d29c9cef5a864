-- audit, is_unconditional: on the path to a publisher, a dispatcher removes the events that it answers from the digest
-- Rule E7. To answer an event is to send it to the requester as REPLY.
select e.run_id, e.sent_round as round, e.src as node_id, a.source, a.source_seq,
  concat('answers node ', e.initiator, ', and leaves the event in the digest') as detail
from entry e
join sent_message a on a.run_id = e.run_id and a.kind = 'REPLY' and a.src = e.src and a.dst = e.initiator
  and a.sent_round = e.sent_round and a.source = e.event_source
where e.style = 'publisher' and e.src <> e.initiator
  and concat(get_json_object(a.body, '$.id'), ':') like concat('%:P', e.pattern_id, '-', e.number, ':%')
