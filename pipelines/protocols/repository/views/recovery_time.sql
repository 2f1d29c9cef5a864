-- How long did each recovery take?
-- One row per run, node and recovery (protocol repository); a client has a row for each role. The recovery of a
-- repository ends when all its topics are operational. The recovery of a client ends when a repository answers its
-- recovery event.
-- :role repository, publisher or subscriber; R2P-Recovery answers a publisher, R2S-Rectify answers a subscriber
-- :end_round round in which the recovery ended; null: it did not end before the next crash or the end of the run
-- :recovering_rounds rounds from recovery_round to end_round; null if end_round is null
-- :recovering_ms recovering_rounds in ms
-- :n_fetched messages that the repository fetched; 0 for clients
with answer as (
  select run_id, dst as node_id, due_round, case kind when 'R2P-Recovery' then 'publisher' else 'subscriber' end as role
  from message
  where kind in ('R2P-Recovery', 'R2S-Rectify') and fate = 'delivered'
    and dst = cast(get_json_object(body, '$.to[0]') as bigint)
), life as (
  select run_id, node_id, name, crash_round, recovery_round, operational_round,
    lead(crash_round) over (partition by run_id, node_id order by crash_round) as next_round
  from node_recovery
), client as (
  select l.run_id, l.node_id, l.name, a.role, l.crash_round, l.recovery_round,
    min(case when a.due_round >= l.recovery_round and (l.next_round is null or a.due_round < l.next_round)
      then a.due_round end) as end_round
  from life l
  join answer a on a.run_id = l.run_id and a.node_id = l.node_id
  where l.recovery_round is not null
  group by l.run_id, l.node_id, l.name, a.role, l.crash_round, l.recovery_round
), fetched as (
  select l.run_id, l.node_id, l.crash_round,
    sum(size(from_json(get_json_object(m.body, '$.copies'), 'array<struct<n:bigint>>'))) as n_fetched
  from life l
  join message m on m.run_id = l.run_id and m.dst = l.node_id and m.kind = 'R2R-Retransmit' and m.fate = 'delivered'
    and m.due_round >= l.recovery_round and (l.operational_round is null or m.due_round <= l.operational_round)
  group by l.run_id, l.node_id, l.crash_round
), counted as (
  select run_id, node_id, name, role, crash_round, recovery_round, end_round, cast(0 as bigint) as n_fetched
  from client
  union all
  select l.run_id, l.node_id, l.name, 'repository' as role, l.crash_round, l.recovery_round, l.operational_round as end_round,
    coalesce(f.n_fetched, 0) as n_fetched
  from life l
  join node n on n.run_id = l.run_id and n.node_id = l.node_id and n.role = 'repository'
  left join fetched f on f.run_id = l.run_id and f.node_id = l.node_id and f.crash_round = l.crash_round
  where l.recovery_round is not null
)
select c.run_id, c.node_id, c.name, c.role, c.crash_round, c.recovery_round, c.end_round,
  c.end_round - c.recovery_round as recovering_rounds, (c.end_round - c.recovery_round) * r.round_ms as recovering_ms,
  c.n_fetched
from counted c
join run r on r.run_id = c.run_id
