-- A row is a node with a crash or a pause, with the round of the first one.
select run_id, node_id, min(round) as round
from fault_event
where kind in ('crash', 'pause')
group by run_id, node_id
