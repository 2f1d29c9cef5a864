-- A row is a round in which a node sends or gets PRUNE, or in which a neighbour leaves the topic. After this round the
-- neighbour is not in the node's mesh, even if a GRAFT arrives in the round and the node answers it by PRUNE (`is_sent`).
select run_id, topic, node_id, peer, round, is_sent from pruned
union all
select run_id, get_json_object(body, '$.topic') as topic, dst as node_id, src as peer, due_round as round,
  false as is_sent
from sent_message
where kind = 'ANNOUNCE' and fate = 'delivered' and get_json_object(body, '$.is_joined') = 'false'
