-- How far behind are the acknowledgements of each subscriber?
-- One row per run, subscriber, topic and designation, see view designation_period (protocol repository).
-- :* designation_period
-- :n_delivered deliveries during the designation
-- :n_unsynced deliveries that no Sync or Rectify of the repository covers
-- :mean_rounds mean of the rounds from a delivery to the first Sync or Rectify that covers it; null: no delivery was
--   synced
-- :max_rounds maximum of the rounds from a delivery to the first Sync or Rectify that covers it
-- :mean_ms mean_rounds in ms
-- :max_ms max_rounds in ms
with placed as (
  select p.run_id, p.subscriber, p.topic, p.designation, p.repository, d.round, s.seq
  from designation_period p
  join delivery d on d.run_id = p.run_id and d.subscriber = p.subscriber and d.round > p.designation
    and (p.end_round is null or d.round <= p.end_round)
  join stored_message s on s.run_id = d.run_id and s.node_id = p.repository and s.topic = p.topic
    and s.source = d.source and s.source_seq = d.source_seq and s.seq is not null
), told as (
  select run_id, dst as subscriber, get_json_object(body, '$.topic') as topic,
    cast(get_json_object(body, '$.designation') as bigint) as designation,
    cast(get_json_object(body, '$.sync') as bigint) as seq, due_round
  from message
  where kind in ('R2S-Sync', 'R2S-Rectify') and fate = 'delivered'
    and dst = cast(get_json_object(body, '$.to[0]') as bigint)
), along as (
  select run_id, subscriber, topic, designation, seq, due_round, cast(null as bigint) as round from told
  union all
  select run_id, subscriber, topic, designation, seq, cast(null as bigint) as due_round, round from placed
), covered as (
  select run_id, subscriber, topic, designation, round, min(due_round) over (
    partition by run_id, subscriber, topic, designation order by seq desc
    range between unbounded preceding and current row) as synced_round
  from along
)
select p.run_id, p.subscriber, p.subscriber_name, p.topic, p.designation, p.repository, p.repository_name,
  count(c.round) as n_delivered,
  count_if(c.round is not null and c.synced_round is null) as n_unsynced,
  avg(c.synced_round - c.round) as mean_rounds, max(c.synced_round - c.round) as max_rounds,
  avg(c.synced_round - c.round) * r.round_ms as mean_ms, max(c.synced_round - c.round) * r.round_ms as max_ms
from designation_period p
join run r on r.run_id = p.run_id
left join covered c on c.run_id = p.run_id and c.subscriber = p.subscriber and c.topic = p.topic
  and c.designation = p.designation
group by p.run_id, p.subscriber, p.subscriber_name, p.topic, p.designation, p.repository, p.repository_name, r.round_ms
