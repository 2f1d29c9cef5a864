-- The nodes that cannot join: their join point never recovers, or cannot join the overlay itself.
with no_point as (
  select run_id, node_id as join_point from node_recovery where recovery_round is null
  union
  select run_id, node_id as join_point from state_join where status <> 'VALID_JOINED'
)
select distinct j.run_id, j.node_id
from state_join j
join no_point n on n.run_id = j.run_id and n.join_point = j.join_point
where j.status = 'DETACHED'
