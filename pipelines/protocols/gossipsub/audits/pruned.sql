-- A row is a PRUNE at its sender or receiver `node_id`, with the other node as `peer`.
select run_id, get_json_object(body, '$.topic') as topic, src as node_id, dst as peer, sent_round as round,
  cast(get_json_object(body, '$.backoff_rounds') as bigint) as backoff_rounds, true as is_sent
from sent_message
where kind = 'PRUNE'
union all
select run_id, get_json_object(body, '$.topic') as topic, dst as node_id, src as peer, due_round as round,
  cast(get_json_object(body, '$.backoff_rounds') as bigint) as backoff_rounds, false as is_sent
from sent_message
where kind = 'PRUNE' and fate = 'delivered'
