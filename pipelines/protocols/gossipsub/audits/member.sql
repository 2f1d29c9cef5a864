-- A row is a node and a topic that it joins at some time, or relays.
select run_id, node_id, topic, min(issued_round) as first_round,
  sum(case when until_round < 9223372036854775807 then 1 else 0 end) as n_ended
from joined
group by run_id, node_id, topic
