-- audit: a repository stores messages once, in order and without gaps
-- Sections 3.5 and 3.6, rules P1 to P5.
select run_id, node_id, source, source_seq, concat('stored ', count(1), ' times on topic ', topic) as detail
from stored_message
group by run_id, node_id, topic, source, source_seq
having count(1) > 1
union all
select * from (
with numbered as (
  select *, row_number() over (
    partition by run_id, node_id, topic, source, incarnation order by seq) as place
  from stored_message
  where is_filled
)
select run_id, node_id, source, source_seq,
  concat('number ', n, ' of its publisher is stored on topic ', topic, ' as number ', place) as detail
from numbered
where n <> place
) unordered
union all
select * from (
with counted as (
  select run_id, node_id, topic, count(1) as n_slots, max(seq) as last_seq
  from state_slot
  group by run_id, node_id, topic
)
select l.run_id, l.node_id, cast(null as bigint) as source,
  cast(null as bigint) as source_seq,
  concat('topic ', l.topic, ' has ', coalesce(c.n_slots, 0), ' numbers up to ', coalesce(c.last_seq, 0), ' of ',
    l.last_seq) as detail
from state_log l
left join counted c on c.run_id = l.run_id and c.node_id = l.node_id and c.topic = l.topic
where coalesce(c.n_slots, 0) <> l.last_seq or coalesce(c.last_seq, 0) <> l.last_seq
union all
select s.run_id, s.node_id, s.publisher as source, s.source_seq,
  concat('reserved number ', s.seq, ' of topic ', s.topic, ' lies before ', l.frontier, ', up to which all is filled')
    as detail
from state_slot s
join state_log l on l.run_id = s.run_id and l.node_id = s.node_id and l.topic = s.topic
where s.status = 'reserved' and s.seq <= l.frontier
) gap
