-- How many messages does each supervisor receive and send, by type and reason?
-- One row per run, supervisor, topic, type of message, reason and direction (protocol skipring).
-- :* sent_message
-- :node_id the supervisor
-- :reason field `reason` of the messages; GetConfiguration: label (action (ii)), minimum (action (iv)) or silence;
--   SetData: round_robin, subscribe, request, moved or leave; other types: empty
-- :is_sent true: messages that the supervisor sent; false: messages that were sent to it
-- :n_messages number of messages
with supervisor as (
  select distinct run_id, node as node_id from state_supervisor
), load as (
  select m.run_id, s.node_id, m.kind, m.body, true as is_sent
  from sent_message m
  join supervisor s on s.run_id = m.run_id and s.node_id = m.src
  where m.src <> m.dst
  union all
  select m.run_id, s.node_id, m.kind, m.body, false as is_sent
  from sent_message m
  join supervisor s on s.run_id = m.run_id and s.node_id = m.dst
  where m.src <> m.dst
), named as (
  select run_id, node_id, kind, is_sent, get_json_object(body, '$.topic') as topic,
    coalesce(get_json_object(body, '$.reason'), '') as reason
  from load
)
select l.run_id, l.node_id, n.name, l.topic, l.kind, l.reason, l.is_sent, count(1) as n_messages
from named l
join node n on n.run_id = l.run_id and n.node_id = l.node_id
group by l.run_id, l.node_id, n.name, l.topic, l.kind, l.reason, l.is_sent
