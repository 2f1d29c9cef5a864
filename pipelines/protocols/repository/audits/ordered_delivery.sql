-- The positions of deliveries in a round; a repeated delivery has that of the first.
select run_id, node_id, source, source_seq, min(position) as position
from state_ordered_delivery
group by run_id, node_id, source, source_seq
