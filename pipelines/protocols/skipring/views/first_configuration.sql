-- How long does a subscriber wait for its first configuration?
-- One row per run, subscriber and topic (protocol skipring) with a subscription to it. configured_round is the first
-- round in which it has a label, -1: from the start, null: never; waited_rounds counts from its first subscription
-- on.
with asked as (
  select s.run_id, s.subscriber as node_id, p.text as topic, min(s.issued_round) as issued_round
  from subscription s
  join predicate p on p.run_id = s.run_id and p.subscription_id = s.subscription_id and p.attribute = 'topic'
  group by s.run_id, s.subscriber, p.text
), labelled as (
  select run_id, node_id, topic, min(round) as configured_round
  from state_configuration_change
  where label is not null and wants
  group by run_id, node_id, topic
)
select a.run_id, a.node_id, n.name, a.topic, a.issued_round, l.configured_round,
  greatest(l.configured_round - a.issued_round, 0) as waited_rounds
from asked a
join node n on n.run_id = a.run_id and n.node_id = a.node_id
left join labelled l on l.run_id = a.run_id and l.node_id = a.node_id and l.topic = a.topic
