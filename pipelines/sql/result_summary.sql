-- What are the mean and the confidence interval of each measure over the seeds of a combination of parameters?
-- One row per combination of parameters and measure. A confidence interval contains only possible values of its
-- measure. A ratio has Wilson's interval. The sample size of this interval is the number of trials for which a
-- proportion would have the observed variance of the mean; if all values are equal, it is the number of values. Any
-- other measure is at least 0 and has the interval mean * exp(+-h / mean), where h is half the width of Student's
-- interval. Both intervals use quantiles of Student's t distribution: up to 4 degrees of freedom from a table, and from
-- Fisher's series otherwise (error below 0.001). If all values are equal, Wilson's interval uses the quantile 1.96.
-- :* parameter
-- :run_id lowest run_id of the combination
-- :n_runs number of runs of the combination
-- :measure name of the measure: a column of view run_summary
-- :n number of runs in which the measure is not null
-- :mean mean of the measure
-- :ci_low lower end of the 95 % confidence interval of the mean; null: fewer than two values
-- :ci_high upper end of the 95 % confidence interval of the mean; null: fewer than two values
-- :standard_deviation sample standard deviation of the measure; null: fewer than two values
-- :lowest lowest value of the measure
-- :highest highest value of the measure
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
), quantile as (
  select *, case freedom
    when 1 then 12.706205 when 2 then 4.302653 when 3 then 3.182446 when 4 then 2.776445
    else 1.959964 + 2.372271 / freedom + 2.822499 / power(freedom, 2) + 2.555852 / power(freedom, 3)
      + 1.589536 / power(freedom, 4)
  end as student, highest > lowest as is_spread, measure in ('delivery_ratio', 'wanted_ratio') as is_ratio
  from freed
), sized as (
  select *, deviation / sqrt(freedom + 1) * student as half,
    case when is_spread then student else 1.959964 end as z,
    case when is_spread then mean * (1 - mean) * (freedom + 1) / power(deviation, 2) else freedom + 1 end as size
  from quantile
), spread as (
  select *,
    case when is_ratio then (mean + z * z / (2 * size)) / (1 + z * z / size) end as centre,
    case when is_ratio then
      z / (1 + z * z / size) * sqrt(greatest(mean * (1 - mean), cast(0 as double)) / size + z * z / (4 * size * size)) end as reach
  from sized
)
select *
from parameter
join (
  select c.run_id, c.n_runs, s.measure, s.n, s.mean,
    case when s.n > 1 and s.is_ratio then greatest(s.centre - s.reach, cast(0 as double))
      when s.n > 1 and s.is_spread then s.mean * exp(-s.half / s.mean)
      when s.n > 1 then s.mean end as ci_low,
    case when s.n > 1 and s.is_ratio then least(s.centre + s.reach, cast(1 as double))
      when s.n > 1 and s.is_spread then s.mean * exp(s.half / s.mean)
      when s.n > 1 then s.mean end as ci_high,
    case when s.n > 1 then s.deviation end as standard_deviation, s.lowest, s.highest
  from combination c
  join spread s on s.parameters = c.parameters
) summarised using (run_id)
