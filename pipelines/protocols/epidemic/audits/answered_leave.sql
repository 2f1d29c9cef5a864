-- audit, is_unconditional: events that a dispatcher answers leave the digest on the way to the publisher
-- A dispatcher on the path to a publisher sends some events of a digest to the requester; it removes these events from
-- the digest that it forwards (rule E7).
select e.run_id, e.sent_round as round, e.src as node_id, a.source, a.source_seq,
  concat('answers node ', e.initiator, ', and leaves the event in the digest') as detail
from entry e
join sent_message a on a.run_id = e.run_id and a.kind = 'REPLY' and a.src = e.src and a.dst = e.initiator
  and a.sent_round = e.sent_round and a.source = e.event_source
where e.style = 'publisher' and e.src <> e.initiator
  and concat(get_json_object(a.body, '$.id'), ':') like concat('%:P', e.pattern_id, '-', e.number, ':%')
