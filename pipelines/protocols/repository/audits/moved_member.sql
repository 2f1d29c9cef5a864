-- The repositories that join, leave or are removed, per topic. A call concerns the topics of its caller. A repository
-- with a call ``join`` has a row even if it was down in the round of the call, and so never joined. kind: join, leave or
-- remove; round: the round of the first call of this kind.
with move as (
  select run_id, node_id as caller, node_id, kind, round from control_call where kind = 'join'
  union all
  select run_id, node_id as caller, node_id, kind, round from issued_call where kind = 'leave'
  union all
  select run_id, node_id as caller, peer as node_id, kind, round from issued_call where kind = 'remove'
)
select m.run_id, l.topic, m.node_id, m.kind, min(m.round) as round
from move m
join state_log l on l.run_id = m.run_id and l.node_id = m.caller
group by m.run_id, l.topic, m.node_id, m.kind
