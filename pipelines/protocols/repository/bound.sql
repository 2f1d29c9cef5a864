-- A row is a run with permanent crashes, or a baseline with duplicated messages: the crashes, the first round in which a
-- link fault duplicates messages, the run's links, and its nodes other than brokers. The rows are the input of
-- `repository_beyond`.
with gone as (
  select run_id, array_sort(collect_list(struct(crash_round as round, node_id))) as gone
  from node_recovery
  where recovery_round is null
  group by run_id
), ends as (
  select run_id, array_sort(collect_list(node_id)) as ends from node where role <> 'broker' group by run_id
), links as (
  select run_id, array_sort(collect_list(struct(src, dst))) as links from link group by run_id
), twice as (
  select f.run_id, min(f.round) as duplicate_round
  from fault_event f
  join parameter r on r.run_id = f.run_id and r.protocol_baseline
  where f.kind = 'duplicate'
  group by f.run_id
)
select e.run_id, e.ends, l.links, g.gone, t.duplicate_round
from ends e
left join links l on l.run_id = e.run_id
left join gone g on g.run_id = e.run_id
left join twice t on t.run_id = e.run_id
where g.run_id is not null or t.run_id is not null
