-- audit: every live node finds a parent, or is the root of the tree
-- A live node finds a parent, and a live client has an edge broker at the end. A node with status ISOLATED has given up
-- its search for a parent.
select run_id, round, node_id, 'found no broker that accepts it' as detail
from node_status
where status = 'ISOLATED'
union all
select run_id, cast(null as bigint) as round, node_id, 'has no edge broker' as detail
from up_node
where role <> 'broker' and above is null
