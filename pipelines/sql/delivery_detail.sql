-- Which subscriber got which publication, when, with which latency and over how many links?
-- One row per delivery.
-- :* delivery
-- :* publication
-- :delivery_round round of the delivery
select d.run_id, d.subscriber, sn.name as subscriber_name, d.source, pn.name as source_name, d.source_seq,
  p.topic, p.content, p.issued_round as publication_round, d.round as delivery_round, d.latency_rounds,
  d.latency_rounds * r.round_ms as latency_ms, d.hops
from delivery d
join run r on r.run_id = d.run_id
join node sn on sn.run_id = d.run_id and sn.node_id = d.subscriber
join node pn on pn.run_id = d.run_id and pn.node_id = d.source
join publication p on p.run_id = d.run_id and p.source = d.source and p.source_seq = d.source_seq
