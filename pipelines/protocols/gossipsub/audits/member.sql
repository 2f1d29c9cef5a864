-- A row is a node and a topic that it subscribes to at some time.
select run_id, node_id, topic, min(issued_round) as first_round, count(unsubscribed_round) as n_ended
from (
  select run_id, subscriber as node_id, regexp_extract(predicate, "topic = '([^']*)'", 1) as topic, issued_round,
    unsubscribed_round
  from subscription
) subscribed
group by run_id, node_id, topic
