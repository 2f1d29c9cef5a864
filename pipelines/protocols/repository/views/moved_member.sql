-- Which repositories join or leave bundles, or are removed?
-- One row per run, topic, repository, kind of call and caller (protocol repository). A call concerns the topics of its
-- caller.
-- :node_id the repository
-- :kind join, leave or remove
-- :caller repository that issues the call: another repository if kind is remove, else the repository itself
-- :round round of the caller's first call of this kind
-- :is_issued whether the caller issued the call; false: it was down in the round of its call join, and so never joins.
--   Other calls that were not issued have no row
with move as (
  select run_id, node_id as caller, node_id + 0 as node_id, kind, round, false as is_issued
  from control_call
  where kind = 'join'
  union all
  select run_id, node_id as caller, node_id + 0 as node_id, kind, round, true as is_issued
  from issued_call
  where kind in ('join', 'leave')
  union all
  select run_id, node_id as caller, peer + 0 as node_id, kind, round, true as is_issued
  from issued_call
  where kind = 'remove'
)
select m.run_id, l.topic, m.node_id, n.name, m.kind, m.caller, min(m.round) as round, max(m.is_issued) as is_issued
from move m
join state_log l on l.run_id = m.run_id and l.node_id = m.caller
join node n on n.run_id = m.run_id and n.node_id = m.node_id
group by m.run_id, l.topic, m.node_id, n.name, m.kind, m.caller
