-- The repositories that join, leave or are removed. is_join: the repository joins by a call, even if it was down then and
-- the call is lost.
select run_id, node_id, true as is_join from control_call where kind = 'join'
union
select run_id, node_id, false as is_join from issued_call where kind = 'leave'
union
select run_id, peer as node_id, false as is_join from issued_call where kind = 'remove'
