-- audit: a repository stores messages once, in order and without gaps
-- Sections 3.5 and 3.6, rules P1 to P5, P37. A skipped message is no gap if no repository of the bundle has it at the end
-- of the run; repositories that have left or have been removed are no part of the bundle.
with skipped as (
  select run_id, node_id, topic, publisher as source, incarnation, explode(skipped) as n from state_incarnation
)
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
), placed as (
  select s.run_id, s.node_id, s.topic, s.source, s.source_seq, s.n, s.place + count(k.n) as place
  from numbered s
  left join skipped k on k.run_id = s.run_id and k.node_id = s.node_id and k.topic = s.topic and k.source = s.source
    and k.incarnation = s.incarnation and k.n < s.n
  group by s.run_id, s.node_id, s.topic, s.source, s.source_seq, s.n, s.place
)
select run_id, node_id, source, source_seq,
  concat('number ', n, ' of its publisher is stored on topic ', topic, ' as number ', place) as detail
from placed
where n <> place
) unordered
union all
select k.run_id, k.node_id, s.source, s.source_seq, concat('number ', k.n, ' of its publisher is skipped on topic ',
  k.topic, ', and node ', min(s.node_id), ' has it') as detail
from skipped k
join stored_message s on s.run_id = k.run_id and s.topic = k.topic and s.source = k.source
  and s.incarnation = k.incarnation and s.n = k.n
left join moved_member m on m.kind <> 'join' and m.run_id = s.run_id and m.topic = s.topic and m.node_id = s.node_id
where m.run_id is null
group by k.run_id, k.node_id, k.topic, k.n, s.source, s.source_seq
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
