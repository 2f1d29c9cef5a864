-- Which publications did a subscriber ask for, but did not have to get, as it or the publisher crashed, and did it get them?
-- delivery_round is that of the first delivery; null: it did not get it.
with delivered as (
  select run_id, subscriber, source, source_seq, min(round) as delivery_round
  from delivery
  group by run_id, subscriber, source, source_seq
)
select r.run_id, r.subscriber, sn.name as subscriber_name, r.source, pn.name as source_name, r.source_seq,
  r.publication_round, r.subscription_id, r.excuse, d.delivery_round
from receiver r
join node sn on sn.run_id = r.run_id and sn.node_id = r.subscriber
join node pn on pn.run_id = r.run_id and pn.node_id = r.source
left join delivered d on d.run_id = r.run_id and d.subscriber = r.subscriber
  and d.source = r.source and d.source_seq = r.source_seq
where r.excuse is not null
