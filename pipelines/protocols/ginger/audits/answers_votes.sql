-- audit, is_dated: a broker answers each vote of a sibling
-- Alg. 7, rules G18, G19, G29 and G32. The answer is a vote, or a list of the brokers above, in the same round or
-- later. A vote must name all failed brokers of the sibling's vote, with the same or later incarnations. A broker need
-- not answer if it crashes before the repair must end (rule G14), or if it has not found a parent since its recovery.
with named as (
  select run_id, message_id, src, dst, one.broker, one.incarnation from (
    select run_id, message_id, src, dst,
      explode(from_json(brokers, 'array<struct<broker:bigint,incarnation:bigint>>')) as one
    from election_message
    where degree is not null
  )
), shared as (
  select v.run_id, v.message_id, a.message_id as answer_id, count(distinct v.broker) as n_named
  from named v
  join named a on a.run_id = v.run_id and a.src = v.dst and a.dst = v.src and a.broker = v.broker
    and a.incarnation >= v.incarnation
  group by v.run_id, v.message_id, a.message_id
), vote_size as (
  select run_id, message_id, count(*) as n_named from named group by run_id, message_id
), answered as (
  select s.run_id, s.message_id
  from shared s
  join vote_size z on z.run_id = s.run_id and z.message_id = s.message_id and z.n_named = s.n_named
  union all
  select v.run_id, v.message_id
  from election_message v
  join election_message a on a.run_id = v.run_id and a.src = v.dst and a.dst = v.src and a.degree is null
    and a.sent_round >= v.due_round
)
select distinct v.run_id, v.due_round as round, v.dst as node_id,
  concat('does not answer the vote of node ', v.src) as detail
from election_message v
join quiet_run q on q.run_id = v.run_id
left join answered a on a.run_id = v.run_id and a.message_id = v.message_id
left join repair_limit p on p.run_id = v.run_id
left join node_recovery c on c.run_id = v.run_id and c.node_id = v.dst and c.crash_round > v.due_round
  and c.crash_round <= v.due_round + p.most_rounds
left join newcomer w on w.run_id = v.run_id and w.node_id = v.dst and w.from_round <= v.due_round
  and (w.end_round is null or v.due_round <= w.end_round)
where v.degree is not null and v.fate = 'delivered' and a.run_id is null and c.run_id is null and w.run_id is null
