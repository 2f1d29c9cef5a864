-- audit: a recovered node has the view and the routing entries of a node that never failed
-- Lemma 4: Eq. (1) and both levels hold at recovered nodes. Column round is the last round in which the node became
-- OPERATIONAL.
select w.run_id, r.round, w.node_id, concat('recovered in round ', r.round, ': ', w.detail) as detail
from (
  select run_id, node_id, detail from broken_view union all select run_id, node_id, detail from broken_entry
) w
join (
  select run_id, node_id, max(operational_round) as round
  from node_recovery
  where recovering_rounds is not null
  group by run_id, node_id
) r on r.run_id = w.run_id and r.node_id = w.node_id
