-- A row is a run with its nodes, links, crashes, and pairs of publisher and subscriber: the input of `flooding_beyond`.
with nodes as (
  select run_id, array_sort(collect_list(node_id)) as nodes from node group by run_id
), links as (
  select run_id, array_sort(collect_list(struct(src, dst))) as links from link group by run_id
), pairs as (
  select p.run_id, array_sort(collect_set(struct(p.source as src, s.subscriber as dst))) as pairs
  from publication p
  join subscription s on s.run_id = p.run_id
  group by p.run_id
), crashes as (
  select run_id, array_sort(collect_list(struct(crash_round as round, node_id))) as crashes
  from node_recovery
  group by run_id
), twice as (
  select run_id, min(round) as duplicate_round from fault_event where kind = 'duplicate' group by run_id
)
select r.run_id, n.nodes, l.links, p.pairs, c.crashes, t.duplicate_round,
  cast(r.protocol_max_hops as bigint) as max_hops
from parameter r
join nodes n on n.run_id = r.run_id
left join links l on l.run_id = r.run_id
left join pairs p on p.run_id = r.run_id
left join crashes c on c.run_id = r.run_id
left join twice t on t.run_id = r.run_id
