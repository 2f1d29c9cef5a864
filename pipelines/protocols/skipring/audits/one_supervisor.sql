-- audit, is_unconditional: requests go to the topic's supervisor, and SetData comes from it
-- Section 1.3, rules K14 and K21.
select m.run_id, m.sent_round as round, m.src as node_id,
  concat('topic ', m.topic, ': it sends ', m.kind, ' to ', d.name,
    ', and the supervisor of the topic is ', n.name) as detail
from ring_message m
join topic_supervisor s on s.run_id = m.run_id and s.topic = m.topic
join node n on n.run_id = m.run_id and n.node_id = s.supervisor
join node d on d.run_id = m.run_id and d.node_id = m.dst
where m.sent_round >= 0 and case when m.kind = 'SetData' then m.src <> s.supervisor
  else m.kind in ('Subscribe', 'GetConfiguration', 'RequestFor', 'Unsubscribe') and m.dst <> s.supervisor end
