-- audit, is_unconditional: with `max_hops`, a node delivers each copy, and forwards it until the maximum
-- Rule F4. A copy that has crossed fewer than `max_hops` links is forwarded in the round of its arrival, over all links
-- except the one over which it arrived. So without losses and crashes each node within `max_hops` links of a publisher
-- gets a copy. If an earlier link fault duplicates messages, a node may send more copies than it has received. The audit
-- does not check deliveries in the round of a subscription or of its end.
with limited as (
  select run_id, cast(protocol_max_hops as bigint) as max_hops from parameter where protocol_max_hops is not null
), handled as (
  select m.run_id, m.dst as node_id, m.src as sender, m.source, m.source_seq, m.due_round as round,
    cast(get_json_object(m.body, '$.hops') as bigint) as hops
  from sent_message m
  where m.kind = 'PUB' and m.fate = 'delivered'
  union all
  select run_id, source as node_id, cast(null as bigint) as sender, source, source_seq, issued_round as round, 0 as hops
  from publication
), owed as (
  select h.run_id, h.node_id, l.dst, h.source, h.source_seq, h.round, h.hops + 1 as hops, count(1) as n
  from handled h
  join limited r on r.run_id = h.run_id and h.hops < r.max_hops
  join link l on l.run_id = h.run_id and l.src = h.node_id and not l.dst <=> h.sender
  group by h.run_id, h.node_id, l.dst, h.source, h.source_seq, h.round, h.hops
), sent as (
  select m.run_id, m.src as node_id, m.dst, m.source, m.source_seq, m.sent_round as round,
    cast(get_json_object(m.body, '$.hops') as bigint) as hops, count(1) as n
  from sent_message m
  join limited r on r.run_id = m.run_id
  where m.kind = 'PUB'
  group by m.run_id, m.src, m.dst, m.source, m.source_seq, m.sent_round, get_json_object(m.body, '$.hops')
), compared as (
  select coalesce(o.run_id, s.run_id) as run_id, coalesce(o.round, s.round) as round,
    coalesce(o.node_id, s.node_id) as node_id, coalesce(o.source, s.source) as source,
    coalesce(o.source_seq, s.source_seq) as source_seq, coalesce(o.dst, s.dst) as dst,
    coalesce(o.hops, s.hops) as hops, coalesce(o.n, 0) as n_owed, coalesce(s.n, 0) as n_sent
  from owed o
  full join sent s on s.run_id = o.run_id and s.node_id = o.node_id and s.dst = o.dst and s.source = o.source
    and s.source_seq = o.source_seq and s.round = o.round and s.hops = o.hops
)
select c.run_id, c.round, c.node_id, c.source, c.source_seq,
  concat('sends ', c.n_sent, ' of ', c.n_owed, ' copies to node ', c.dst, ' for link ', c.hops) as detail
from compared c
left join (select run_id, min(round) as round from fault_event where kind = 'duplicate' group by run_id) d
  on d.run_id = c.run_id and d.round <= c.round
where c.n_sent < c.n_owed or (c.n_sent > c.n_owed and (c.n_owed = 0 or d.run_id is null))
union all
select h.run_id, h.round, h.node_id, h.source, h.source_seq, 'gets it, and does not deliver it' as detail
from handled h
join limited r on r.run_id = h.run_id
join matching m on m.run_id = h.run_id and m.source = h.source and m.source_seq = h.source_seq
join subscription s on s.run_id = m.run_id and s.subscription_id = m.subscription_id and s.subscriber = h.node_id
  and s.issued_round < h.round and coalesce(s.unsubscribed_round > h.round, true)
left join delivery d on d.run_id = h.run_id and d.subscriber = h.node_id and d.source = h.source
  and d.source_seq = h.source_seq and d.round = h.round
where d.run_id is null
