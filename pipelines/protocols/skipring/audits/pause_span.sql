-- A row is a pause of a node, from round to end_round; null: to the end of the run.
select p.run_id, p.node_id, p.round, min(e.round) as end_round
from fault_event p
left join fault_event e on e.run_id = p.run_id and e.node_id = p.node_id and e.kind = 'pause_end' and e.round >= p.round
where p.kind = 'pause'
group by p.run_id, p.node_id, p.round
