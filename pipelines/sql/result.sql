-- What are the parameters and the measures of each run?
-- One row per run: its parameters, its seed, and the measures of view run_summary.
-- :* run_summary
-- :* parameter
select *
from parameter
join (
  select run_id, seed, verdict, within_bound, rounds, n_crashes, n_publications, n_expected, n_deliveries, n_missing,
    delivery_ratio, n_wanted, n_wanted_delivered, wanted_ratio, n_excused, n_messages, messages_per_delivery, latency_rounds_median, latency_rounds_p95,
    latency_rounds_max, latency_ms_median, latency_ms_p95, latency_ms_max, confirmation_rounds_median,
    confirmation_rounds_max, confirmation_ms_median, confirmation_ms_max, n_violations, n_violations_excused
  from run_summary
) measured using (run_id)
