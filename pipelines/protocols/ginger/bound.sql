-- The runs with crashes or with late subscriptions: one row per run, the input of udfs.ginger.bound.beyond_runs. A
-- confirmed join has no issued_round. A subscription is late if a fault held it and the topic's first publication was
-- issued before its confirmation.
with joins as (
  select c.run_id, c.node_id, c.contact, l.issued_round
  from state_contact c
  left join state_call_log l on l.run_id = c.run_id and l.source = c.node_id and l.kind = 'join'
  where c.is_joining
), nodes as (
  select run_id, array_sort(collect_list(struct(node_id, name, role))) as nodes from node group by run_id
), links as (
  select run_id, array_sort(collect_list(struct(src, dst, latency_rounds))) as links from link group by run_id
), faults as (
  select run_id, array_sort(collect_list(struct(round, kind, node_id))) as faults
  from fault_event
  where kind in ('crash', 'recovery')
  group by run_id
), subscriptions as (
  select s.run_id, array_sort(collect_list(struct(s.subscriber, p.text as topic, s.issued_round))) as subscriptions
  from subscription s
  join predicate p on p.run_id = s.run_id and p.subscription_id = s.subscription_id and p.attribute = 'topic'
  group by s.run_id
), first as (
  select run_id, topic, min(issued_round) as round from publication group by run_id, topic
), late as (
  select h.run_id, array_sort(collect_list(struct(
    h.subscriber, h.topic, h.called_round + h.held_rounds as held_until_round, f.round as published_round
  ))) as late
  from held_subscription h
  join subscription s on s.run_id = h.run_id and s.subscription_id = h.subscription_id
  join first f on f.run_id = h.run_id and f.topic = h.topic
    and coalesce(s.confirmed_round > f.round, true)
  group by h.run_id
), joined as (
  select run_id, array_sort(collect_list(struct(node_id, contact, issued_round))) as joins from joins group by run_id
)
select r.run_id, r.parameters, n.nodes, l.links, f.faults, s.subscriptions, j.joins, t.late
from run r
join nodes n on n.run_id = r.run_id
join links l on l.run_id = r.run_id
left join faults f on f.run_id = r.run_id
left join late t on t.run_id = r.run_id
left join subscriptions s on s.run_id = r.run_id
left join joined j on j.run_id = r.run_id
where f.run_id is not null or t.run_id is not null
