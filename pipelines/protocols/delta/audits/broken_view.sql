-- Eq. (1): TOP_N contains exactly the valid links whose two ends are within δ+1 hops of N, and none of these links is
-- marked. The equation requires that no message is in flight, so the audit checks the last state of runs that end
-- quiescent. It does not check the link of a join that is unfinished because the joining node or its join point has
-- crashed.
with unfinished_join as (
  -- The join of a node that is not a member may have stopped when an end of the link crashed.
  select distinct l.run_id, least(l.src, l.dst) as a, greatest(l.src, l.dst) as b
  from link l
  join node_recovery c on c.run_id = l.run_id and c.node_id = l.src
  left join member s on s.run_id = l.run_id and s.node_id = l.src
  left join member d on d.run_id = l.run_id and d.node_id = l.dst
  where s.run_id is null or d.run_id is null
), link_count as (
  -- On a tree, the links whose two ends are within δ+1 hops are the last links of the paths to the nodes within δ+1
  -- hops.
  select run_id, node_id, least(element_at(path, -2), target) as a, greatest(element_at(path, -2), target) as b,
    1 as expected, 0 as held, 0 as marked
  from judged_path
  where distance > 0
  union all
  select t.run_id, t.node_id, t.a, t.b, 0 as expected, 1 as held, cast(t.is_marked as int) as marked
  from state_topology t
  join judged j on j.run_id = t.run_id and j.node_id = t.node_id
  left join unfinished_join u on u.run_id = t.run_id and u.a = t.a and u.b = t.b
  where u.run_id is null
), wrong_link as (
  select run_id, node_id, a, b, sum(expected) as n_expected, sum(held) as n_held
  from link_count
  group by run_id, node_id, a, b
  having sum(expected) <> sum(held) or sum(marked) > 0
), names as (
  select run_id, map_from_entries(collect_list(struct(node_id, name))) as name_of from node group by run_id
)
select w.run_id, w.node_id, concat('TOP ', case
    when n_held = 0 then 'lacks'
    when n_expected = 0 then 'holds, beyond its reach,'
    when n_held > 1 then 'holds more than once'
    else 'still marks' end,
  ' the link ', coalesce(name_of[a], cast(a as string)), '-', coalesce(name_of[b], cast(b as string))) as detail
from wrong_link w
join names n on n.run_id = w.run_id
