-- A row is a subscription, or a topic of a relay: the node has joined the topic from `issued_round` to `until_round`.
select s.run_id, s.subscription_id, s.subscriber as node_id, c.text as topic, s.issued_round,
  coalesce(s.unsubscribed_round, 9223372036854775807) as until_round
from subscription s
join predicate c on c.run_id = s.run_id and c.subscription_id = s.subscription_id and c.attribute = 'topic' and c.op = '='
union all
select n.run_id, cast(-1 as bigint) as subscription_id, n.node_id, t.topic, cast(-1 as bigint) as issued_round,
  9223372036854775807 as until_round
from node n
join parameter r on r.run_id = n.run_id and r.protocol_relay
join (
  select run_id, topic from publication
  union
  select run_id, text as topic from predicate where attribute = 'topic' and op = '='
) t on t.run_id = n.run_id
where n.role = 'broker'
