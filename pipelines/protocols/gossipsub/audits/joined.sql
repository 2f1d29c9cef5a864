-- A row is a subscription, or a topic of a relay: the node has joined the topic from `issued_round` to `until_round`.
select run_id, subscription_id, subscriber as node_id, regexp_extract(predicate, "topic = '([^']*)'", 1) as topic,
  issued_round, coalesce(unsubscribed_round, 9223372036854775807) as until_round
from subscription
union all
select n.run_id, cast(-1 as bigint) as subscription_id, n.node_id, t.topic, cast(-1 as bigint) as issued_round,
  9223372036854775807 as until_round
from node n
join parameter r on r.run_id = n.run_id and r.protocol_relay
join (
  select run_id, topic from publication
  union
  select run_id, regexp_extract(predicate, "topic = '([^']*)'", 1) as topic from subscription
) t on t.run_id = n.run_id
where n.role = 'broker'
