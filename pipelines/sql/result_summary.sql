-- What does each combination of parameters give on average over its seeds, and how sure is that?
-- One row per combination of parameters and measure. The confidence interval is that of Student's t distribution: its
-- quantiles are a table up to 4 degrees of freedom and Fisher's series above (off by less than 0.001).
-- :* parameter
-- :run_id first run of the combination
-- :n_runs runs of the combination
-- :measure a column of view run_summary
-- :n runs that have the measure
-- :mean mean of the measure
-- :ci_low lower end of the 95 % confidence interval of the mean; null: fewer than two values
-- :ci_high its upper end; null: fewer than two values
-- :standard_deviation standard deviation of the sample; null: fewer than two values
-- :lowest lowest value
-- :highest highest value
with combination as (
  select parameters, min(run_id) as run_id, count(1) as n_runs
  from run
  group by parameters
), valued as (
  select parameters, inline(array(
    named_struct('measure', 'delivery_ratio', 'value', delivery_ratio),
    named_struct('measure', 'wanted_ratio', 'value', wanted_ratio),
    named_struct('measure', 'n_wanted', 'value', cast(n_wanted as double)),
    named_struct('measure', 'n_wanted_delivered', 'value', cast(n_wanted_delivered as double)),
    named_struct('measure', 'messages_per_delivery', 'value', messages_per_delivery),
    named_struct('measure', 'latency_rounds_median', 'value', cast(latency_rounds_median as double)),
    named_struct('measure', 'latency_rounds_p95', 'value', cast(latency_rounds_p95 as double)),
    named_struct('measure', 'latency_rounds_max', 'value', cast(latency_rounds_max as double)),
    named_struct('measure', 'confirmation_rounds_median', 'value', cast(confirmation_rounds_median as double)),
    named_struct('measure', 'confirmation_rounds_max', 'value', cast(confirmation_rounds_max as double)),
    named_struct('measure', 'latency_ms_median', 'value', latency_ms_median),
    named_struct('measure', 'latency_ms_p95', 'value', latency_ms_p95),
    named_struct('measure', 'latency_ms_max', 'value', latency_ms_max),
    named_struct('measure', 'confirmation_ms_median', 'value', confirmation_ms_median),
    named_struct('measure', 'confirmation_ms_max', 'value', confirmation_ms_max),
    named_struct('measure', 'n_crashes', 'value', cast(n_crashes as double)),
    named_struct('measure', 'n_messages', 'value', cast(n_messages as double)),
    named_struct('measure', 'n_deliveries', 'value', cast(n_deliveries as double)),
    named_struct('measure', 'n_missing', 'value', cast(n_missing as double)),
    named_struct('measure', 'n_violations', 'value', cast(n_violations as double)),
    named_struct('measure', 'n_violations_excused', 'value', cast(n_violations_excused as double)),
    named_struct('measure', 'rounds', 'value', cast(rounds as double))
  ))
  from run_summary
), averaged as (
  select parameters, measure, count(value) as n, avg(value) as mean, stddev_samp(value) as deviation,
    min(value) as lowest, max(value) as highest
  from valued
  group by parameters, measure
), freed as (
  select *, cast(case when n > 1 then n - 1 end as double) as freedom
  from averaged
), spread as (
  select *, deviation / sqrt(freedom + 1) * case freedom
    when 1 then 12.706205 when 2 then 4.302653 when 3 then 3.182446 when 4 then 2.776445
    else 1.959964 + 2.372271 / freedom + 2.822499 / power(freedom, 2) + 2.555852 / power(freedom, 3)
      + 1.589536 / power(freedom, 4)
  end as half
  from freed
)
select *
from parameter
join (
  select c.run_id, c.n_runs, s.measure, s.n, s.mean, case when s.n > 1 then s.mean - s.half end as ci_low,
    case when s.n > 1 then s.mean + s.half end as ci_high,
    case when s.n > 1 then s.deviation end as standard_deviation, s.lowest, s.highest
  from combination c
  join spread s on s.parameters = c.parameters
) summarised using (run_id)
