-- audit, is_unconditional: no node stores or sends an invalid label after its first Timeout
-- Rules K1 and K21: a label has at most 62 digits, and only label 0 ends with zero.
with stored as (
  select run_id, node_id, topic, round, until_round,
    explode(array(label, `left`.label, `right`.label, ring.label)) as label
  from ring_state
  union all
  select run_id, node_id, topic, round, until_round, slot.label as label
  from (select run_id, node_id, topic, round, until_round, explode(slots) as slot from ring_state) one
), invalid as (
  select distinct s.run_id, s.node_id, s.topic, s.label,
    case when s.round < 0 then t.interval_rounds else s.round end as round
  from stored s
  join ring_setting t on t.run_id = s.run_id
  left join pause_span p on p.run_id = s.run_id and p.node_id = s.node_id and p.round <= t.interval_rounds
  where s.label is not null and not (length(s.label) <= 62 and (s.label = '0' or endswith(s.label, '1')))
    and (s.round >= 0 or (s.until_round > t.interval_rounds and p.run_id is null))
)
select run_id, round, node_id, concat('topic ', topic, ': it stores label ', label) as detail
from invalid
union all
select run_id, sent_round as round, src as node_id,
  concat('topic ', topic, ': it sends ', kind, ' with an invalid label') as detail
from ring_message
where sent_round >= 0 and not is_valid
