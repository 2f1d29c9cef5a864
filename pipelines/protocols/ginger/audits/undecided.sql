-- A row is a run that ended while a timer of a node was pending, because the node may have been under repair.
with pending as (
  select run_id, min(struct(round, node_id)) as first
  from state_timer
  group by run_id
)
select p.run_id, p.first.round as round, concat('a timer of ', n.name, ' is pending until round ', p.first.round) as reason
from pending p
join node n on n.run_id = p.run_id and n.node_id = p.first.node_id
