-- How do runs compare, independently of their protocols' promises?
-- One row per run; each measure has one meaning for all protocols. Broken orders are counted among the first deliveries
-- of each publication at each subscriber; two deliveries in one round have no order. A publication causally depends on
-- the publications that its publisher had issued or received before. A dependency through a publication that was not
-- delivered is ignored. Requested orders are counted separately, because protocol ginger promises only requested
-- orders. Each type of message belongs to one class (view protocol): application (carries a publication for the first
-- time), acknowledgement, recovery (repeats lost messages, or serves recovering nodes), or control (all other types).
-- The size of a message is the length of its body as JSON; for an application message, the lengths of topic and content
-- are added. Sizes therefore do not depend on a binary encoding. A measure is null if the run has nothing to measure.
-- :* run
-- :* broken_order
-- :n_deliveries number of first deliveries: one for each publication and subscriber
-- :n_duplicates number of repeated deliveries of a publication at a subscriber
-- :latency_rounds_p99 99th percentile of latency_rounds
-- :latency_ms_p99 latency_rounds_p99 in ms
-- :settling_rounds rounds from the first fault to the last delivery of a publication that was issued before the last
--   fault; at least 0
-- :settling_ms settling_rounds in ms
-- :application_per_delivery application messages / n_deliveries
-- :acknowledgement_per_delivery acknowledgements / n_deliveries
-- :control_per_delivery control messages / n_deliveries
-- :recovery_per_delivery recovery messages / n_deliveries
-- :bytes_per_delivery bytes of all messages / n_deliveries
-- :application_bytes_per_delivery bytes of application messages / n_deliveries
-- :held_rows_per_node rows of the protocol's state at the end / number of nodes
-- :durable_rows_per_node rows of the protocol's state at the end that survive a crash of their node / number of nodes
-- :held_bytes_per_node bytes of the protocol's state at the end, as JSON / number of nodes
-- :durable_bytes_per_node bytes of the protocol's state at the end that survives a crash, as JSON / number of nodes:
--   the disk space of a node
with ranked as (
  select *, row_number() over (partition by run_id order by latency_rounds) as position,
    count(1) over (partition by run_id) as n_all
  from first_delivery
), delivered as (
  select run_id, count(1) as n_deliveries, sum(n_deliveries) - count(1) as n_duplicates,
    min(case when 2 * position >= n_all then latency_rounds end) as latency_rounds_median,
    min(case when 100 * position >= 95 * n_all then latency_rounds end) as latency_rounds_p95,
    min(case when 100 * position >= 99 * n_all then latency_rounds end) as latency_rounds_p99,
    max(latency_rounds) as latency_rounds_max
  from ranked
  group by run_id
), wanted as (
  select run_id, count(1) as n_wanted, count(delivery_round) as n_wanted_delivered
  from wanted_delivery
  group by run_id
), fault as (
  select run_id, min(round) as first_round, max(round) as last_round
  from fault_event
  group by run_id
), settled as (
  select f.run_id, greatest(max(d.delivery_round) - min(f.first_round), 0) as settling_rounds
  from fault f
  join publication p on p.run_id = f.run_id and p.issued_round < f.last_round
  join first_delivery d on d.run_id = p.run_id and d.source = p.source and d.source_seq = p.source_seq
  group by f.run_id
), carried as (
  select run_id, source, source_seq, coalesce(octet_length(topic), 0) + coalesce(octet_length(content), 0) as n_bytes
  from publication
), put as (
  -- The aggregation before the joins reduces many messages to few rows
  select run_id, kind, source, source_seq, count(1) as n, coalesce(sum(octet_length(body)), 0) as n_body
  from sent_message
  where src <> dst
  group by run_id, kind, source, source_seq
), classed as (
  select m.run_id, m.n, m.n_body, m.n * coalesce(p.n_bytes, 0) as n_carried,
    case when array_contains(t.application, m.kind) then 'application'
      when array_contains(t.acknowledgement, m.kind) then 'acknowledgement'
      when array_contains(t.recovery, m.kind) then 'recovery' else 'control' end as class
  from put m
  join run r on r.run_id = m.run_id
  join protocol t on t.name = r.protocol
  left join carried p on p.run_id = m.run_id and p.source = m.source and p.source_seq = m.source_seq
), sent as (
  select run_id, sum(n) as n_messages, sum(case when class = 'application' then n else 0 end) as n_application,
    sum(case when class = 'acknowledgement' then n else 0 end) as n_acknowledgement,
    sum(case when class = 'control' then n else 0 end) as n_control,
    sum(case when class = 'recovery' then n else 0 end) as n_recovery,
    sum(n_body + case when class = 'application' then n_carried else 0 end) as n_bytes,
    sum(case when class = 'application' then n_body + n_carried else 0 end) as n_application_bytes
  from classed
  group by run_id
), held as (
  select run_id, sum(n_rows) as n_rows, sum(case when is_durable then n_rows else 0 end) as n_durable_rows,
    sum(n_bytes) as n_bytes, sum(case when is_durable then n_bytes else 0 end) as n_durable_bytes
  from held_state
  group by run_id
), sized as (
  select run_id, count(1) as n_nodes
  from node
  group by run_id
)
select r.run_id, r.protocol, r.seed, r.parameters, r.verdict, r.within_bound,
  coalesce(w.n_wanted, 0) as n_wanted, coalesce(w.n_wanted_delivered, 0) as n_wanted_delivered,
  cast(w.n_wanted_delivered as double) / w.n_wanted as wanted_ratio,
  coalesce(d.n_deliveries, 0) as n_deliveries, coalesce(d.n_duplicates, 0) as n_duplicates,
  coalesce(o.n_source_order_broken, 0) as n_source_order_broken,
  coalesce(o.n_causal_order_broken, 0) as n_causal_order_broken,
  coalesce(o.n_total_order_broken, 0) as n_total_order_broken,
  o.n_asked_causal_broken, o.n_asked_total_broken,
  d.latency_rounds_median, d.latency_rounds_p95, d.latency_rounds_p99, d.latency_rounds_max,
  d.latency_rounds_median * r.round_ms as latency_ms_median, d.latency_rounds_p95 * r.round_ms as latency_ms_p95,
  d.latency_rounds_p99 * r.round_ms as latency_ms_p99, d.latency_rounds_max * r.round_ms as latency_ms_max,
  f.settling_rounds, f.settling_rounds * r.round_ms as settling_ms,
  coalesce(s.n_messages, 0) as n_messages,
  cast(coalesce(s.n_messages, 0) as double) / d.n_deliveries as messages_per_delivery,
  cast(coalesce(s.n_application, 0) as double) / d.n_deliveries as application_per_delivery,
  cast(coalesce(s.n_acknowledgement, 0) as double) / d.n_deliveries as acknowledgement_per_delivery,
  cast(coalesce(s.n_control, 0) as double) / d.n_deliveries as control_per_delivery,
  cast(coalesce(s.n_recovery, 0) as double) / d.n_deliveries as recovery_per_delivery,
  cast(coalesce(s.n_bytes, 0) as double) / d.n_deliveries as bytes_per_delivery,
  cast(coalesce(s.n_application_bytes, 0) as double) / d.n_deliveries as application_bytes_per_delivery,
  cast(coalesce(h.n_rows, 0) as double) / z.n_nodes as held_rows_per_node,
  cast(coalesce(h.n_durable_rows, 0) as double) / z.n_nodes as durable_rows_per_node,
  cast(coalesce(h.n_bytes, 0) as double) / z.n_nodes as held_bytes_per_node,
  cast(coalesce(h.n_durable_bytes, 0) as double) / z.n_nodes as durable_bytes_per_node
from run r
join sized z on z.run_id = r.run_id
left join wanted w on w.run_id = r.run_id
left join delivered d on d.run_id = r.run_id
left join broken_order o on o.run_id = r.run_id
left join settled f on f.run_id = r.run_id
left join sent s on s.run_id = r.run_id
left join held h on h.run_id = r.run_id
