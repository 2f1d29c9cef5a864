-- Which expected deliveries did not happen?
-- These are the rows of view expected_delivery without a delivery. If the horizon ended a run early, some of the
-- missing publications may still have been in flight.
-- :* expected_delivery
select e.run_id, e.subscriber, e.subscriber_name, e.source, e.source_name, e.source_seq,
  e.publication_round, e.subscription_id
from expected_delivery e
left join delivery d on d.run_id = e.run_id and d.subscriber = e.subscriber
  and d.source = e.source and d.source_seq = e.source_seq
where d.run_id is null
