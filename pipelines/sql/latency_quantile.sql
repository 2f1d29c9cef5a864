-- How are the latencies of a run's deliveries distributed?
-- One row per run with deliveries and per quantile: 0, 0.05, ..., 0.95, 0.99, 1. All runs have the same quantiles, so
-- their curves are comparable.
-- :* delivery
-- :quantile the quantile, as a proportion of the deliveries from 0 to 1
-- :latency_rounds the smallest number of rounds such that at least this proportion of the deliveries has this latency
--   or less
with counted as (
  select run_id, latency_rounds, count(1) as n
  from delivery
  where latency_rounds is not null
  group by run_id, latency_rounds
), summed as (
  select run_id, latency_rounds, sum(n) over (partition by run_id order by latency_rounds) as n_up_to,
    sum(n) over (partition by run_id) as n_all
  from counted
), asked as (
  select run_id, latency_rounds, n_up_to, n_all,
    explode(array(0, 5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 55, 60, 65, 70, 75, 80, 85, 90, 95, 99, 100)) as percent
  from summed
), found as (
  select run_id, percent, min(case when 100 * n_up_to >= percent * n_all then latency_rounds end) as latency_rounds
  from asked
  group by run_id, percent
)
select f.run_id, f.percent / 100 as quantile, f.latency_rounds, f.latency_rounds * r.round_ms as latency_ms
from found f
join run r on r.run_id = f.run_id
