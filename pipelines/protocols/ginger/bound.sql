-- The runs with crashes: one row per run, the input of udfs.ginger.bound.beyond_runs. A confirmed join has no
-- issued_round.
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
), joined as (
  select run_id, array_sort(collect_list(struct(node_id, contact, issued_round))) as joins from joins group by run_id
)
select r.run_id, r.parameters, n.nodes, l.links, f.faults, s.subscriptions, j.joins
from run r
join nodes n on n.run_id = r.run_id
join links l on l.run_id = r.run_id
join faults f on f.run_id = r.run_id
left join subscriptions s on s.run_id = r.run_id
left join joined j on j.run_id = r.run_id
