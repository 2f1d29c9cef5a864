-- audit, is_unconditional: gossip to a publisher follows the route of the publisher's newest event back
-- Rule E12. The audit does not check dispatchers that have crashed since that event, because they have lost their routes.
with asked as (
  select g.run_id, g.message_id, g.initiator, g.dst, g.sent_round, g.path, e.event_source
  from gossip g
  join (
    select distinct run_id, message_id, event_source from entry
  ) e on e.run_id = g.run_id and e.message_id = g.message_id
  where g.style = 'publisher' and g.src = g.initiator
), event as (
  select m.run_id, m.dst as node_id, m.src as sender, m.source, m.source_seq, m.due_round, m.sent_round,
    get_json_object(m.body, '$.path') as path, explode(split(get_json_object(m.body, '$.id'), ':')) as tag
  from sent_message m
  where m.kind = 'EVENT' and m.fate = 'delivered'
), own as (
  select distinct e.run_id, e.node_id, e.sender, e.source, e.source_seq, e.due_round, e.path
  from event e
  join state_pattern p on p.run_id = e.run_id and p.node_id = e.node_id
    and e.tag like concat('P', p.pattern_id, '-%')
  join subscription s on s.run_id = p.run_id and s.subscription_id = p.subscription_id
    and s.issued_round < e.due_round and e.due_round < coalesce(s.unsubscribed_round, 9223372036854775807)
), newest as (
  select a.run_id, a.message_id, a.initiator, a.dst, a.sent_round, a.path as rest, o.sender, o.path, o.source,
    o.source_seq, o.due_round,
    row_number() over (partition by a.run_id, a.message_id order by o.source_seq desc) as age
  from asked a
  join own o on o.run_id = a.run_id and o.node_id = a.initiator and o.source = a.event_source
    and o.due_round <= a.sent_round
)
select n.run_id, n.sent_round as round, n.initiator as node_id, n.source, n.source_seq,
  concat('arrived from node ', n.sender, ' over ', n.path, ', and gossip to its publisher goes to node ', n.dst,
    ' and on over ', coalesce(n.rest, '[]')) as detail
from newest n
left join fault_event c on c.run_id = n.run_id and c.kind = 'crash' and c.node_id = n.initiator
  and c.round between n.due_round and n.sent_round
where n.age = 1 and c.run_id is null and reverse(from_json(n.path, 'array<bigint>'))
  <> concat(array(n.dst), coalesce(from_json(n.rest, 'array<bigint>'), array()))
