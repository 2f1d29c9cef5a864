-- A row is a delivery with its position in the order of its subscriber; a repeated delivery has the first position.
select run_id, node_id, source, source_seq, min(position) as position
from state_ordered_delivery
group by run_id, node_id, source, source_seq
