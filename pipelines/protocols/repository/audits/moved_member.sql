-- The repositories that join, leave or are removed. A repository with a call ``join`` has a row even if it was down in
-- the round of the call, and so never joined. is_join: whether the repository has a call ``join``.
select run_id, node_id, true as is_join from control_call where kind = 'join'
union
select run_id, node_id, false as is_join from issued_call where kind = 'leave'
union
select run_id, peer as node_id, false as is_join from issued_call where kind = 'remove'
