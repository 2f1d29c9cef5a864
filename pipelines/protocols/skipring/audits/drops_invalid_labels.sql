-- audit, is_unconditional: no node stores or sends an invalid label after its first Timeout
-- Rules K1 and K21: a label has at most 62 digits, and only label 0 ends with zero.
with stored as (
  select s.run_id, s.node_id, s.topic, case when s.round < 0 then t.interval_rounds else s.round end as round,
    filter(flatten(array(array(s.label, s.`left`.label, s.`right`.label, s.ring.label),
      transform(s.slots, slot -> slot.label))), one -> one is not null
      and not (length(one) <= 62 and (one = '0' or endswith(one, '1')))) as labels
  from ring_state s
  join ring_setting t on t.run_id = s.run_id
  left join pause_span p on p.run_id = s.run_id and p.node_id = s.node_id and p.round <= t.interval_rounds
  where s.round >= 0 or (s.until_round > t.interval_rounds and p.run_id is null)
)
select run_id, round, node_id, cast(null as bigint) as source, cast(null as bigint) as source_seq,
  concat('topic ', topic, ': it stores label ', array_join(labels, ', ')) as detail
from stored
where size(labels) > 0
union all
select run_id, sent_round as round, src as node_id, cast(null as bigint) as source, cast(null as bigint) as source_seq,
  concat('topic ', topic, ': it sends ', kind, ' with an invalid label') as detail
from ring_message
where sent_round >= 0 and not is_valid
