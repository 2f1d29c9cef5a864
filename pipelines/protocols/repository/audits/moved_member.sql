-- The repositories that join, leave or are removed. A repository with a call ``join`` has a row even if it was down in
-- the round of the call, and so never joined. is_join: whether the repository has a call ``join``; round: the round of
-- the first of these calls.
with move as (
  select run_id, node_id, true as is_join, round from control_call where kind = 'join'
  union all
  select run_id, node_id, false as is_join, round from issued_call where kind = 'leave'
  union all
  select run_id, peer as node_id, false as is_join, round from issued_call where kind = 'remove'
)
select run_id, node_id, is_join, min(round) as round from move group by run_id, node_id, is_join
