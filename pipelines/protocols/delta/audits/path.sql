-- The paths P(N, X) between members, up to δ+1 hops, including P(N, N). responsible: the first node after N on the path
-- that is up at the end; null: all nodes after N are down.
with down as (
  select run_id, array_sort(collect_list(node_id)) as down
  from node_recovery
  where end_round is null and recovery_round is null
  group by run_id
), way as (
  select run_id, node_id, node_id as target, 0 as distance, array(node_id) as path, node_id as first_hop, delta
  from member
  union all
  select t.run_id, t.node_id, t.target, t.distance, t.path, t.responsible as first_hop, m.delta
  from tree_path t
  join member m on m.run_id = t.run_id and m.node_id = t.node_id
  where t.distance > 0 and t.distance <= m.delta + 1
)
select w.run_id, w.node_id, w.target, w.distance, w.path, w.first_hop, w.delta,
  case when w.distance = 0 then w.node_id when d.down is null then w.first_hop
    else get(array_except(slice(w.path, 2, 100), d.down), 0) end as responsible
from way w
left join down d on d.run_id = w.run_id
