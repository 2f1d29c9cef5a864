-- The members that are OPERATIONAL at the end of a quiescent run. All other nodes have no state or incomplete state.
select m.run_id, m.node_id, m.delta
from member m
left join in_flight_run f on f.run_id = m.run_id
left join (select distinct run_id, node_id from node_recovery where end_round is null) a
  on a.run_id = m.run_id and a.node_id = m.node_id
where f.run_id is null and a.run_id is null
