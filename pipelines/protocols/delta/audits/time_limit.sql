-- The recoveries, publications, subscriptions and unsubscriptions whose deadline (limit_round) is not after the end of
-- the run. The deadline is the end of the first grace period (view grace) without a disturbance. Disturbances are
-- crashes, recoveries, and the periods in which a fault delays messages or pauses a node. Each period lasts until the
-- messages of the fault are due, including later messages that wait for the delayed messages of their link. PAR_SUB and
-- PAR_TOP do not count as waiting, because nodes send them with a delay of their own. The deadline of a call from before
-- the caller's join counts from the join (counted_round): the node holds the call until it has joined, and a crash loses
-- it.
with over as (
  select run_id, max(due_round) as last_round from message where fate <> 'in_flight' group by run_id
), delayed as (
  select b.run_id, b.round as first_round, min(e.round) as end_round
  from fault_event b
  left join fault_event e on e.run_id = b.run_id and e.kind = concat(b.kind, '_end') and e.node_id <=> b.node_id
    and e.src <=> b.src and e.dst <=> b.dst and e.round >= b.round
  where b.kind in ('delay', 'reorder', 'pause')
  group by b.run_id, b.kind, b.node_id, b.src, b.dst, b.round
), late as (
  select m.run_id, m.sent_round, max(m.due_round) as due_round
  from message m
  join link l on l.run_id = m.run_id and l.src = m.src and l.dst = m.dst
  where m.due_round > m.sent_round + l.latency_rounds and m.kind not in ('PAR_SUB', 'PAR_TOP')
  group by m.run_id, m.sent_round
), waiting as (
  select run_id, first_round, max(due_round) as due_round
  from (
    select l.run_id, l.due_round, max(d.first_round) as first_round
    from late l
    join delayed d on d.run_id = l.run_id and d.first_round <= l.sent_round
    group by l.run_id, l.sent_round, l.due_round
  ) newest
  group by run_id, first_round
), span as (
  select distinct run_id, round as first_round, round as end_round
  from fault_event
  where kind in ('crash', 'recovery')
  union all
  select d.run_id, d.first_round,
    greatest(d.end_round, coalesce(max(m.due_round), 0), coalesce(max(w.due_round), 0)) as end_round
  from delayed d
  left join message m on m.run_id = d.run_id and m.sent_round between d.first_round and d.end_round
  left join waiting w on w.run_id = d.run_id and w.first_round = d.first_round
  where d.end_round is not null
  group by d.run_id, d.first_round, d.end_round
  union all
  select run_id, first_round, 9223372036854775807 as end_round from delayed where end_round is null
), settled as (
  select s.run_id, s.end_round, s.end_round + g.grace_rounds as settled_round
  from span s
  join grace g on g.run_id = s.run_id
  left join span n on n.run_id = s.run_id and n.end_round > s.end_round
    and n.first_round <= s.end_round + g.grace_rounds
  where n.run_id is null and s.end_round < 9223372036854775807
), begun as (
  select run_id, node_id, cast(null as bigint) as source_seq, recovery_round as begin_round, end_round,
    'recovery' as what
  from node_recovery
  where recovery_round is not null
  union all
  select run_id, source as node_id, source_seq, issued_round as begin_round, confirmed_round as end_round,
    'publication' as what
  from publication
  union all
  select run_id, subscriber as node_id, cast(null as bigint) as source_seq, issued_round as begin_round,
    confirmed_round as end_round, 'subscription' as what
  from subscription
  union all
  select run_id, subscriber as node_id, cast(null as bigint) as source_seq, unsubscribed_round as begin_round,
    ended_round as end_round, 'unsubscription' as what
  from subscription
  where unsubscribed_round is not null
), joined as (
  select run_id, node_id, max(round) as round from control_call where kind = 'join' group by run_id, node_id
), asked as (
  select b.run_id, b.node_id, b.source_seq, b.begin_round, greatest(b.begin_round, coalesce(j.round, 0)) as counted_round,
    b.end_round, b.what
  from begun b
  left join joined j on j.run_id = b.run_id and j.node_id = b.node_id
), disturbed as (
  select b.run_id, b.node_id, b.source_seq, b.begin_round, b.counted_round, b.end_round, b.what,
    b.counted_round + g.grace_rounds as undisturbed_round, count(d.run_id) as n_spans
  from asked b
  join grace g on g.run_id = b.run_id
  left join span d on d.run_id = b.run_id and d.end_round > b.counted_round
    and d.first_round <= b.counted_round + g.grace_rounds
  group by b.run_id, b.node_id, b.source_seq, b.begin_round, b.counted_round, b.end_round, b.what, g.grace_rounds
), limited as (
  select d.run_id, d.node_id, d.source_seq, d.begin_round, d.end_round, d.what,
    case when d.n_spans = 0 then d.undisturbed_round else min(s.settled_round) end as limit_round
  from disturbed d
  left join settled s on s.run_id = d.run_id and d.n_spans > 0 and s.end_round > d.counted_round
  group by d.run_id, d.node_id, d.source_seq, d.begin_round, d.end_round, d.what, d.n_spans, d.undisturbed_round
)
select l.run_id, l.node_id, l.source_seq, l.begin_round, l.end_round, l.what, l.limit_round
from limited l
join over o on o.run_id = l.run_id and o.last_round >= l.limit_round
