-- Which deliveries were excused because the subscriber or the publisher crashed, and did they happen?
-- These are the rows of view receiver that have an excuse.
-- :* receiver
select r.run_id, r.subscriber, r.subscriber_name, r.source, r.source_name, r.source_seq,
  r.publication_round, r.subscription_id, r.excuse, d.delivery_round
from receiver r
left join first_delivery d on d.run_id = r.run_id and d.subscriber = r.subscriber
  and d.source = r.source and d.source_seq = r.source_seq
where r.excuse is not null
