-- audit, is_dated: a recovered broker repeats Broker-Up until it has an answer
-- Rule P31. A row is a Broker-Up that gets no answer and is not repeated within 4 `reroute_rounds` + 2 rounds. In this
-- time neither the broker nor the receiver crashes or pauses, neither is paused since before, and the receiver is not
-- down. A broker that recovers during a pause sends Broker-Up before the pause ends. The report of a crash arrives after
-- `reroute_rounds`, so a crash of the receiver since the recovery may end the repetition when the receiver is up again.
with setting as (
  select e.run_id, e.last_round, r.protocol_reroute_rounds as report_rounds, 4 * r.protocol_reroute_rounds + 2
    as most_rounds
  from settled_run e
  join parameter r on r.run_id = e.run_id
), up as (
  select run_id, src, dst, sent_round, cast(get_json_object(body, '$.up_round') as bigint) as up_round
  from sent_message
  where kind = 'Broker-Up'
), answer as (
  select run_id, src, dst, due_round, cast(get_json_object(body, '$.up_round') as bigint) as up_round
  from sent_message
  where kind = 'Broker-Up-ACK' and fate = 'delivered'
), struck as (
  select distinct run_id, node_id, kind, round from fault_event where node_id is not null
), paused as (
  select b.run_id, b.node_id, b.round, min(e.round) as end_round
  from fault_event b
  left join fault_event e on e.run_id = b.run_id and e.node_id = b.node_id and e.kind = 'pause_end' and e.round > b.round
  where b.kind = 'pause'
  group by b.run_id, b.node_id, b.round
)
select distinct u.run_id, u.sent_round as round, u.src as node_id,
  concat('tells ', n.name, ' once that it is up, and has no answer') as detail
from up u
join setting s on s.run_id = u.run_id and u.sent_round + s.most_rounds <= s.last_round
join node n on n.run_id = u.run_id and n.node_id = u.dst
left join up o on o.run_id = u.run_id and o.src = u.src and o.dst = u.dst and o.up_round = u.up_round
  and o.sent_round > u.sent_round and o.sent_round <= u.sent_round + s.most_rounds
left join answer a on a.run_id = u.run_id and a.src = u.dst and a.dst = u.src and a.up_round = u.up_round
  and a.due_round <= u.sent_round + s.most_rounds
left join struck f on f.run_id = u.run_id and f.node_id in (u.src, u.dst)
  and f.round <= u.sent_round + s.most_rounds
  and f.round > case when f.kind = 'crash' then greatest(u.sent_round - s.report_rounds, u.up_round) else u.sent_round end
left join paused p on p.run_id = u.run_id and p.node_id in (u.src, u.dst) and p.round <= u.sent_round
  and coalesce(p.end_round > u.sent_round, true)
left join node_recovery d on d.run_id = u.run_id and d.node_id = u.dst and d.crash_round <= u.sent_round
  and (d.recovery_round is null or d.recovery_round > u.sent_round)
where o.run_id is null and a.run_id is null and f.run_id is null and p.run_id is null and d.run_id is null
