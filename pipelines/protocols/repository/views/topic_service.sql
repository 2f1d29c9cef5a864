-- When do repositories serve each topic, and how many repositories and publishers crashed permanently?
-- One row per run and topic (protocol repository). With best effort (protocol.baseline) no repository serves a topic.
-- * A repository without a call join is a founder. It serves from the start.
-- * A repository that joins serves after the first calm period (view calm_period) in which it needs needed_rounds (view
--   settled_run) to fetch all messages from a serving repository. If it is down in the round of its call, it never joins.
-- * A repository that is asked to leave counts until the next permanent crash or removal of a repository, because it
--   first sends its messages to the remaining ones.
-- * If no serving repository remains, repositories that have joined wait for the crashed ones. The service resumes if
--   remaining repositories remove all of them by call remove. The view considers only removed founders, and topics
--   without earlier calls register and deregister.
-- :n_serving repositories that serve the topic at the end, are not asked to leave, are not removed, and do not crash
--   permanently
-- :n_gone repositories of the topic that crashed permanently
-- :n_gone_publishers publishers of the topic that crashed permanently
-- :served_round round in which the last serving repository crashed permanently, was asked to leave, or was removed;
--   null: a repository serves the topic to the end
-- :resumed_round round of the last removal, from which repositories serve the topic again; null: they do not serve it
--   again, or served_round is null
with gone as (
  select run_id, node_id, min(crash_round) as round
  from node_recovery where recovery_round is null
  group by run_id, node_id
), first_move as (
  select run_id, topic, node_id, max(kind = 'join') as is_newcomer, max(kind = 'join' and not is_issued) as is_absent,
    min(case when kind = 'join' then round end) as join_round,
    min(case when kind = 'leave' then round end) as leave_round,
    min(case when kind = 'remove' then round end) as remove_round
  from moved_member
  group by run_id, topic, node_id
), member as (
  select l.run_id, l.topic, l.node_id, not coalesce(m.is_newcomer, false) as is_founder, m.join_round,
    g.round as gone_round, m.leave_round, least(g.round, m.remove_round) as death_round,
    least(g.round, m.remove_round, m.leave_round) as end_round
  from state_log l
  join parameter a on a.run_id = l.run_id and not a.protocol_baseline
  left join gone g on g.run_id = l.run_id and g.node_id = l.node_id
  left join first_move m on m.run_id = l.run_id and m.topic = l.topic and m.node_id = l.node_id
  where not coalesce(m.is_absent, false)
), helpful as (
  select m.run_id, m.topic, m.node_id, m.is_founder, m.join_round, m.end_round,
    min(case when d.node_id = m.node_id or d.death_round >= m.leave_round then d.death_round end) as last_round
  from member m
  join member d on d.run_id = m.run_id and d.topic = m.topic
  group by m.run_id, m.topic, m.node_id, m.is_founder, m.join_round, m.end_round
), calm as (
  select c.run_id, c.from_round, c.from_round + s.needed_rounds as ready_round,
    row_number() over (partition by c.run_id order by c.from_round) as index
  from calm_period c
  join settled_run s on s.run_id = c.run_id
), present as (
  select h.run_id, h.topic, h.node_id, h.end_round,
    case when h.is_founder then 0 else min(c.index) end as first_index, max(c.index) as last_index
  from helpful h
  left join calm c on c.run_id = h.run_id and c.from_round >= coalesce(h.join_round, 0)
    and (h.last_round is null or c.ready_round <= h.last_round)
  group by h.run_id, h.topic, h.node_id, h.is_founder, h.end_round
), bridged as (
  select t.run_id, t.topic, c.index, count(p.node_id) as n_members
  from (select distinct run_id, topic from present) t
  join calm c on c.run_id = t.run_id
  left join present p on p.run_id = t.run_id and p.topic = t.topic and p.first_index < c.index
    and p.last_index >= c.index
  group by t.run_id, t.topic, c.index
), gap as (
  select run_id, topic, min(case when n_members = 0 then index end) as index from bridged group by run_id, topic
), serving as (
  select p.run_id, p.topic, count_if(p.end_round is null) as n_serving, max(p.end_round) as last_round
  from present p
  left join gap g on g.run_id = p.run_id and g.topic = p.topic
  where p.first_index < g.index or p.first_index is not null and g.index is null
  group by p.run_id, p.topic
), remover as (
  select v.run_id, v.topic, v.node_id, min(v.round) as round
  from moved_member v
  join member m on m.run_id = v.run_id and m.topic = v.topic and m.node_id = v.caller and m.end_round is null
  where v.kind = 'remove'
  group by v.run_id, v.topic, v.node_id
), registered as (
  select run_id, coalesce(topic, '') as topic, min(round) as round
  from issued_call where kind in ('register', 'deregister')
  group by run_id, coalesce(topic, '')
), remaining as (
  select m.run_id, m.topic, count(m.gone_round) as n_gone, count_if(m.end_round is null) as n_members,
    case when count_if(m.death_round is not null and (r.round is null or not m.is_founder)) = 0
        and coalesce(min(a.round) > max(r.round), true) then max(r.round) end as resumed_round
  from member m
  left join remover r on r.run_id = m.run_id and r.topic = m.topic and r.node_id = m.node_id
  left join registered a on a.run_id = m.run_id and a.topic = m.topic
  group by m.run_id, m.topic
), publishing as (
  select p.run_id, coalesce(p.topic, '') as topic, count(distinct p.source) as n_gone_publishers
  from publication p
  join gone g on g.run_id = p.run_id and g.node_id = p.source
  group by p.run_id, coalesce(p.topic, '')
)
select s.run_id, s.topic, case when s.n_serving = 0 and o.resumed_round is not null then o.n_members else s.n_serving end
    as n_serving, o.n_gone, coalesce(p.n_gone_publishers, 0) as n_gone_publishers,
  case when s.n_serving = 0 then coalesce(s.last_round, 0) end as served_round,
  case when s.n_serving = 0 and o.n_members > 0 then o.resumed_round end as resumed_round
from serving s
join remaining o on o.run_id = s.run_id and o.topic = s.topic
left join publishing p on p.run_id = s.run_id and p.topic = s.topic
