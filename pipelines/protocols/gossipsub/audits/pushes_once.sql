-- audit, is_unconditional: a node pushes a publication over a link once
-- Rules S6 to S9. A node pushes only publications that it has not seen, so it does not push again before `seen_ttl`
-- heartbeats have passed (S17), or before it has lost its state in a crash. Several copies in one round count as one
-- push if an earlier link fault duplicates messages.
with pushed as (
  select run_id, src, dst, source, source_seq, sent_round, count(1) as n
  from sent_message
  where kind = 'PUB'
  group by run_id, src, dst, source, source_seq, sent_round
), ordered as (
  select *, lag(sent_round) over (partition by run_id, src, dst, source, source_seq order by sent_round) as earlier_round
  from pushed
)
select o.run_id, o.sent_round as round, o.src as node_id, o.source, o.source_seq,
  concat('pushed to node ', o.dst, ', and before that in round ', o.earlier_round) as detail
from ordered o
join parameter r on r.run_id = o.run_id
left join fault_event x on x.run_id = o.run_id and x.node_id = o.src and x.kind = 'crash'
  and x.round > o.earlier_round and x.round <= o.sent_round
where x.run_id is null and o.sent_round < o.earlier_round + r.protocol_seen_ttl * r.protocol_heartbeat_rounds
union all
select p.run_id, p.sent_round as round, p.src as node_id, p.source, p.source_seq,
  concat('pushed to node ', p.dst, ' ', p.n, ' times in this round') as detail
from pushed p
left join fault_event d on d.run_id = p.run_id and d.kind = 'duplicate' and d.round <= p.sent_round
where p.n > 1 and d.run_id is null
