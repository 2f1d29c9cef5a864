-- Which publications did each subscriber get, when first, and how often?
-- One row per run, subscriber and publication that the subscriber got.
-- :* delivery
-- :last_round round of the last delivery
select run_id, subscriber, source, source_seq, min(round) as delivery_round, max(round) as last_round,
  min(latency_rounds) as latency_rounds, count(1) as n_deliveries
from delivery
group by run_id, subscriber, source, source_seq
