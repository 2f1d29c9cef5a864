-- A row is a run with permanent crashes: these crashes, the run's links, and its nodes other than brokers. The rows are
-- the input of `repository_beyond`.
with gone as (
  select run_id, array_sort(collect_list(struct(crash_round as round, node_id))) as gone
  from node_recovery
  where recovery_round is null
  group by run_id
), ends as (
  select run_id, array_sort(collect_list(node_id)) as ends from node where role <> 'broker' group by run_id
), links as (
  select run_id, array_sort(collect_list(struct(src, dst))) as links from link group by run_id
)
select g.run_id, e.ends, l.links, g.gone
from gone g
join ends e on e.run_id = g.run_id
left join links l on l.run_id = g.run_id
