-- audit: a recovered node computes again the recipients of publications that it accepted as Guided
-- A recovering node N accepts publications as Guided messages. In the round of its REJOIN, N resends an unconfirmed
-- Guided publication if its g.to lacks a subscriber within δ+1 hops of N (rule R32). The audit considers only
-- subscriptions that were confirmed before the publication and never end. It does not consider subscribers behind a
-- node that crashes at some time.
with guided as (
  select r.run_id, r.node_id, r.recovery_round, r.rejoin_round as round, m.source, m.source_seq, m.src as sender, m.fate,
    explode(from_json(get_json_object(m.body, '$.guide'), 'array<struct<path:array<bigint>,is_done:boolean>>')) as step
  from rejoin r
  join sent_message m on m.run_id = r.run_id and m.kind = 'PUB' and m.dst = r.node_id
    and m.fate in ('delivered', 'duplicate') and m.due_round >= r.recovery_round and m.due_round < r.rejoin_round
  where get_json_object(m.body, '$.guide') is not null
), accepted as (
  select run_id, node_id, recovery_round, round, source, source_seq, min(sender) as told_by
  from guided
  group by run_id, node_id, recovery_round, round, source, source_seq
  having count(distinct sender) = 1 and max(case when fate = 'delivered' then 1 else 0 end) = 1
), lacking as (
  select a.run_id, a.node_id, a.recovery_round, a.round, a.source, a.source_seq, s.subscriber
  from accepted a
  join publication p on p.run_id = a.run_id and p.source = a.source and p.source_seq = a.source_seq
  join matching g on g.run_id = a.run_id and g.source = a.source and g.source_seq = a.source_seq
  join subscription s on s.run_id = a.run_id and s.subscription_id = g.subscription_id
    and s.confirmed_round < p.issued_round and s.unsubscribed_round is null
  join path w on w.run_id = a.run_id and w.node_id = a.node_id and w.target = s.subscriber and w.distance > 0
  join path b on b.run_id = a.run_id and b.node_id = a.node_id and b.target = a.told_by and b.first_hop <> w.first_hop
  left join node_recovery c on c.run_id = a.run_id and c.node_id <> a.node_id and array_contains(w.path, c.node_id)
  left join guided t on t.run_id = a.run_id and t.node_id = a.node_id and t.round = a.round and t.source = a.source
    and t.source_seq = a.source_seq and element_at(t.step.path, -1) = s.subscriber
  where c.run_id is null and t.run_id is null
)
select distinct l.run_id, l.round, l.node_id, l.source, l.source_seq,
  concat('accepted as Guided without a path to node ', l.subscriber, ', and not sent again with REJOIN') as detail
from lacking l
left join sent_message d on d.run_id = l.run_id and d.kind = 'CONF' and d.src = l.node_id and d.source = l.source
  and d.source_seq = l.source_seq and d.sent_round >= l.recovery_round and d.sent_round <= l.round
left join sent_message m on m.run_id = l.run_id and m.kind = 'PUB' and m.src = l.node_id and m.source = l.source
  and m.source_seq = l.source_seq and m.sent_round = l.round
where d.run_id is null and m.run_id is null
