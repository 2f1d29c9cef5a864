-- How did each run end, and what did it cost?
-- One row per run. The 95th percentile is the smallest value that at least 95 % of the values do not exceed; the median
-- is the smallest value that at least 50 % do not exceed. Expected deliveries depend on the protocol and its settings,
-- but wanted deliveries do not. Column wanted_ratio is therefore comparable between protocols. A measure is null if the
-- run has nothing to measure.
-- :* run
-- :n_publications publications that were issued
-- :delivery_ratio proportion of the expected deliveries that happened
-- :n_excused wanted deliveries that were not expected, see view receiver
-- :confirmation_rounds_median median of the rounds from a publication's issue to its confirmation
-- :confirmation_rounds_max maximum of the rounds from a publication's issue to its confirmation
-- :confirmation_ms_median confirmation_rounds_median in ms
-- :confirmation_ms_max confirmation_rounds_max in ms
-- :n_violations violations that are not excused
-- :n_violations_excused violations that are excused because the faults of the run exceeded the protocol's fault model
with published as (
  select run_id, count(1) as n_publications
  from publication
  group by run_id
), owed as (
  -- Combines the views expected_delivery, missing_delivery and excused_delivery
  select r.run_id, nullif(count_if(r.excuse is null), 0) as n_expected,
    count_if(r.excuse is null and d.run_id is null) as n_missing, count_if(r.excuse is not null) as n_excused
  from receiver r
  left join first_delivery d on d.run_id = r.run_id and d.subscriber = r.subscriber
    and d.source = r.source and d.source_seq = r.source_seq
  group by r.run_id
), wanted as (
  select run_id, count(1) as n_wanted, count(delivery_round) as n_wanted_delivered
  from wanted_delivery
  group by run_id
), crashed as (
  select run_id, count(1) as n_crashes
  from node_recovery
  group by run_id
), sent as (
  select run_id, count(1) as n_messages
  from sent_message
  where src <> dst
  group by run_id
), broken as (
  select run_id, count_if(not excused) as n_violations, count_if(excused) as n_violations_excused
  from violation
  group by run_id
), ranked_delivery as (
  select run_id, latency_rounds, row_number() over (partition by run_id order by latency_rounds) as position,
    count(1) over (partition by run_id) as n
  from delivery
), delivered as (
  select run_id, count(1) as n_deliveries,
    min(case when 2 * position >= n then latency_rounds end) as latency_rounds_median,
    min(case when 100 * position >= 95 * n then latency_rounds end) as latency_rounds_p95,
    max(latency_rounds) as latency_rounds_max
  from ranked_delivery
  group by run_id
), ranked_confirmation as (
  select run_id, confirmation_rounds, row_number() over (partition by run_id order by confirmation_rounds) as position,
    count(1) over (partition by run_id) as n
  from confirmation_time
  where `call` = 'publication'
), confirmed as (
  select run_id, min(case when 2 * position >= n then confirmation_rounds end) as confirmation_rounds_median,
    max(confirmation_rounds) as confirmation_rounds_max
  from ranked_confirmation
  group by run_id
)
select r.run_id, r.scenario, r.protocol, r.seed, r.round_ms, r.parameters, r.verdict, r.within_bound, r.rounds,
  coalesce(h.n_crashes, 0) as n_crashes,
  coalesce(p.n_publications, 0) as n_publications, coalesce(o.n_expected, 0) as n_expected,
  coalesce(d.n_deliveries, 0) as n_deliveries, coalesce(o.n_missing, 0) as n_missing,
  cast(o.n_expected - coalesce(o.n_missing, 0) as double) / o.n_expected as delivery_ratio,
  coalesce(w.n_wanted, 0) as n_wanted, coalesce(w.n_wanted_delivered, 0) as n_wanted_delivered,
  cast(w.n_wanted_delivered as double) / w.n_wanted as wanted_ratio,
  coalesce(o.n_excused, 0) as n_excused,
  coalesce(s.n_messages, 0) as n_messages,
  cast(coalesce(s.n_messages, 0) as double) / d.n_deliveries as messages_per_delivery,
  d.latency_rounds_median, d.latency_rounds_p95, d.latency_rounds_max,
  d.latency_rounds_median * r.round_ms as latency_ms_median, d.latency_rounds_p95 * r.round_ms as latency_ms_p95,
  d.latency_rounds_max * r.round_ms as latency_ms_max,
  c.confirmation_rounds_median, c.confirmation_rounds_max,
  c.confirmation_rounds_median * r.round_ms as confirmation_ms_median,
  c.confirmation_rounds_max * r.round_ms as confirmation_ms_max,
  coalesce(v.n_violations, 0) as n_violations, coalesce(v.n_violations_excused, 0) as n_violations_excused
from run r
left join published p on p.run_id = r.run_id
left join owed o on o.run_id = r.run_id
left join wanted w on w.run_id = r.run_id
left join crashed h on h.run_id = r.run_id
left join sent s on s.run_id = r.run_id
left join delivered d on d.run_id = r.run_id
left join confirmed c on c.run_id = r.run_id
left join broken v on v.run_id = r.run_id
