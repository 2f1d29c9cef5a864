-- Which deliveries were wanted, and when did they happen?
-- One row per run, subscriber and publication that satisfies a subscription of the subscriber. The subscription was
-- issued before the publication and did not end before it. The view lists the deliveries that subscribers want,
-- independently of faults and missing routes; view expected_delivery lists the deliveries that a protocol must make.
-- :subscription_id lowest id of the subscriptions that the publication satisfies
with wanted as (
  select m.run_id, s.subscriber, m.source, m.source_seq, p.issued_round as publication_round,
    min(m.subscription_id) as subscription_id
  from matching m
  join publication p on p.run_id = m.run_id and p.source = m.source and p.source_seq = m.source_seq
  join subscription s on s.run_id = m.run_id and s.subscription_id = m.subscription_id
  where s.issued_round < p.issued_round and (s.unsubscribed_round is null or s.unsubscribed_round > p.issued_round)
  group by m.run_id, s.subscriber, m.source, m.source_seq, p.issued_round
)
select w.run_id, w.subscriber, sn.name as subscriber_name, w.source, pn.name as source_name, w.source_seq,
  w.publication_round, w.subscription_id, d.delivery_round
from wanted w
join node sn on sn.run_id = w.run_id and sn.node_id = w.subscriber
join node pn on pn.run_id = w.run_id and pn.node_id = w.source
left join first_delivery d on d.run_id = w.run_id and d.subscriber = w.subscriber
  and d.source = w.source and d.source_seq = w.source_seq
