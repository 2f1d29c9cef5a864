-- The first report of each crashed node by the failure detector of another node.
select run_id, dst as node_id, cast(get_json_object(body, '$.peer') as bigint) as peer_id, min(due_round) as round
from sent_message
where kind = 'NODE_DOWN' and fate = 'delivered'
group by run_id, dst, get_json_object(body, '$.peer')
