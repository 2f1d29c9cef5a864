-- The repositories that join, leave or are removed. is_join is true for each repository with a call ``join`` in the
-- scenario, even if the repository was down in the round of the call and so never joined.
select run_id, node_id, true as is_join from control_call where kind = 'join'
union
select run_id, node_id, false as is_join from issued_call where kind = 'leave'
union
select run_id, peer as node_id, false as is_join from issued_call where kind = 'remove'
