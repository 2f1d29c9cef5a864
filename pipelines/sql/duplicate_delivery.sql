-- Which publications were delivered to a subscriber more than once?
-- One row per run, subscriber and publication.
-- :* delivery
-- :n_deliveries number of deliveries, at least 2
-- :first_round round of the first delivery
-- :last_round round of the last delivery
select d.run_id, d.subscriber, sn.name as subscriber_name, d.source, pn.name as source_name, d.source_seq,
  count(1) as n_deliveries, min(d.round) as first_round, max(d.round) as last_round
from delivery d
join node sn on sn.run_id = d.run_id and sn.node_id = d.subscriber
join node pn on pn.run_id = d.run_id and pn.node_id = d.source
group by d.run_id, d.subscriber, sn.name, d.source, pn.name, d.source_seq
having count(1) > 1
