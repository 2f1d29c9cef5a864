-- A live node has a parent or an edge broker, or is the root of the remaining tree.
select run_id, round, node_id, cast(null as bigint) as source, cast(null as bigint) as source_seq,
  'found nobody to take it in' as detail
from node_status
where status = 'ISOLATED'
union all
select run_id, cast(null as bigint) as round, node_id, cast(null as bigint) as source, cast(null as bigint)
  as source_seq,
  'has no edge broker' as detail
from up_node
where role <> 'broker' and above is null
