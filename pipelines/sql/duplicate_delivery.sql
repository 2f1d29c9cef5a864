-- Which publications were delivered to a subscriber more than once?
-- One row per run, subscriber and publication.
-- :* first_delivery
-- :n_deliveries number of deliveries, at least 2
-- :first_round round of the first delivery
select d.run_id, d.subscriber, sn.name as subscriber_name, d.source, pn.name as source_name, d.source_seq,
  d.n_deliveries, d.delivery_round as first_round, d.last_round
from first_delivery d
join node sn on sn.run_id = d.run_id and sn.node_id = d.subscriber
join node pn on pn.run_id = d.run_id and pn.node_id = d.source
where d.n_deliveries > 1
