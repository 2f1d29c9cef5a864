-- How many repositories serve each topic to the end, and how many repositories and publishers crashed permanently?
-- One row per run and topic (protocol repository). With best effort (protocol.baseline) no repository serves a topic. A
-- repository that joins the bundle needs needed_rounds (view settled_run) to fetch all messages. It counts only if no
-- repository of the topic crashed permanently or was removed before this time had passed. It does not count if it was
-- down in the round of its call. A call remove concerns the topics of its caller.
-- :n_serving repositories that serve the topic, are not asked to leave, are not removed, and do not crash permanently
-- :n_gone repositories of the topic that crashed permanently
-- :n_gone_publishers publishers of the topic that crashed permanently
-- :served_round round in which the last serving repository crashed permanently, was asked to leave, or was removed;
--   null: a repository serves the topic to the end
with gone as (
  select run_id, node_id, min(crash_round) as round
  from node_recovery where recovery_round is null
  group by run_id, node_id
), asked as (
  select run_id, node_id as caller, node_id, kind, round from issued_call where kind in ('join', 'leave')
  union all
  select run_id, node_id as caller, peer as node_id, kind, round from issued_call where kind = 'remove'
), moved as (
  select c.run_id, l.topic, c.node_id, min(case when c.kind = 'join' then c.round end) as join_round,
    min(case when c.kind = 'remove' then c.round end) as remove_round,
    max(case when c.kind <> 'join' then c.round end) as leave_round
  from asked c
  join state_log l on l.run_id = c.run_id and l.node_id = c.caller
  group by c.run_id, l.topic, c.node_id
), newcomer as (
  select distinct run_id, node_id from control_call where kind = 'join'
), member as (
  select l.run_id, l.topic, l.node_id, m.join_round, g.round as gone_round, least(g.round, m.leave_round) as end_round,
    min(least(g.round, m.remove_round)) over (partition by l.run_id, l.topic) as death_round, s.needed_rounds
  from state_log l
  join parameter a on a.run_id = l.run_id and not a.protocol_baseline
  join settled_run s on s.run_id = l.run_id
  left join gone g on g.run_id = l.run_id and g.node_id = l.node_id
  left join moved m on m.run_id = l.run_id and m.topic = l.topic and m.node_id = l.node_id
  left join newcomer n on n.run_id = l.run_id and n.node_id = l.node_id
  where n.node_id is null or m.join_round is not null
), serving as (
  select run_id, topic, count(gone_round) as n_gone, max(end_round) as last_round, count_if(end_round is null and
    (join_round is null or death_round is null or death_round >= join_round + needed_rounds)) as n_serving
  from member
  group by run_id, topic
), publishing as (
  select p.run_id, coalesce(p.topic, '') as topic, count(distinct p.source) as n_gone_publishers
  from publication p
  join gone g on g.run_id = p.run_id and g.node_id = p.source
  group by p.run_id, coalesce(p.topic, '')
)
select s.run_id, s.topic, s.n_serving, s.n_gone, coalesce(p.n_gone_publishers, 0) as n_gone_publishers,
  case when s.n_serving = 0 then coalesce(s.last_round, 0) end as served_round
from serving s
left join publishing p on p.run_id = s.run_id and p.topic = s.topic
