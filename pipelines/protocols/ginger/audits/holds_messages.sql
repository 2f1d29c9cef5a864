-- audit, is_dated: a broker under repair holds application messages
-- Section 4.3.1, Alg. 9, rule G8. An orphan is under repair from its ParentRequest after the failure to the
-- LostMessages of the new parent. A parent is under repair from its acceptance of a new child to the LostMessageRequest
-- of this child. A broker handles the messages of an exchange in the round in which they arrive.
with exchange as (
  select run_id, dst as node_id, src as partner, due_round as round, kind
  from sent_message
  where kind in ('LostMessages', 'LostMessageRequest', 'TopicJoined', 'Repeat') and fate = 'delivered'
), levelled as (
  select run_id, node_id, round as end_round,
    lag(round) over (partition by run_id, node_id order by round) as last_round
  from exchange
  where kind = 'LostMessages'
), returned as (
  select l.run_id, l.node_id, l.end_round, greatest(coalesce(l.last_round, 0), coalesce(max(n.recovery_round), 0))
    as from_round
  from levelled l
  left join node_recovery n on n.run_id = l.run_id and n.node_id = l.node_id and n.recovery_round <= l.end_round
  group by l.run_id, l.node_id, l.end_round, l.last_round
), child as (
  select e.run_id, e.node_id, e.partner, e.round as end_round, max(p.sent_round) as begin_round
  from exchange e
  join sent_message p on p.run_id = e.run_id and p.src = e.node_id and p.dst = e.partner and p.kind = 'ParentResponse'
    and p.sent_round < e.round and get_json_object(p.body, '$.answer') = 'accepted'
  where e.kind = 'LostMessageRequest'
  group by e.run_id, e.node_id, e.partner, e.round
), repair as (
  select l.run_id, l.node_id, l.end_round, min(q.sent_round) as begin_round
  from returned l
  join sent_message q on q.run_id = l.run_id and q.src = l.node_id and q.kind = 'ParentRequest'
    and q.sent_round >= l.from_round and q.sent_round < l.end_round
  group by l.run_id, l.node_id, l.end_round
  union all
  select c.run_id, c.node_id, c.end_round, c.begin_round
  from child c
  left join sent_message d on d.run_id = c.run_id and d.dst = c.node_id and d.kind = 'NeighborDown'
    and cast(get_json_object(d.body, '$.peer') as bigint) = c.partner
    and d.due_round between c.begin_round and c.end_round
  where d.run_id is null
)
select distinct m.run_id, m.sent_round as round, m.src as node_id, m.source, m.source_seq,
  concat('sends ', m.kind, ' to node ', m.dst, ' during its repair from round ', r.begin_round, ' to ', r.end_round)
    as detail
from repair r
join node n on n.run_id = r.run_id and n.node_id = r.node_id and n.role = 'broker'
join sent_message m on m.run_id = r.run_id and m.src = r.node_id and m.sent_round > r.begin_round
  and m.sent_round < r.end_round and m.kind in ('Metadata', 'TotalAck', 'TotalProcessed', 'Failed')
left join exchange e on e.run_id = m.run_id and e.node_id = m.src and e.round = m.sent_round
where e.run_id is null
