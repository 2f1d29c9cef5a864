-- A row is a subscription: its node has joined the topic from `issued_round` to `until_round`.
select run_id, subscription_id, subscriber as node_id, regexp_extract(predicate, "topic = '([^']*)'", 1) as topic,
  issued_round, coalesce(unsubscribed_round, 9223372036854775807) as until_round
from subscription
