-- Which proportion of the wanted deliveries happened, for each round of publication?
-- One row per run and round in which a publication was issued that a subscriber wants.
-- :* wanted_delivery
-- :n_delivered wanted deliveries that happened
-- :wanted_ratio n_delivered / n_wanted
select run_id, publication_round, count(1) as n_wanted, count(delivery_round) as n_delivered,
  count(delivery_round) / count(1) as wanted_ratio
from wanted_delivery
group by run_id, publication_round
