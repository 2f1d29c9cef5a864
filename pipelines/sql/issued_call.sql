-- Which calls did nodes issue?
-- One row per call of table control_call that its node issued. A node that is down in the round of a call does not issue
-- it.
-- :* control_call
-- :name name of the calling node
select c.run_id, c.node_id, d.name, c.source_seq, c.round, c.kind, c.topic, c.peer, c.role
from control_call c
join node d on d.run_id = c.run_id and d.node_id = c.node_id
left join node_recovery n on n.run_id = c.run_id and n.node_id = c.node_id and n.crash_round <= c.round
  and (n.recovery_round is null or n.recovery_round > c.round)
where n.run_id is null
