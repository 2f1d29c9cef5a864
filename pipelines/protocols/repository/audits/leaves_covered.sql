-- audit, is_dated: a repository leaves when the remaining members have its messages, and know that it leaves
-- Section 4.10, rules P26 and P30. A repository leaves in the round of its first Gossip-LEAVE. A remaining member has
-- sent a Gossip-ACK that arrived in the last T_assist rounds, and no Gossip-ACK has reported that it leaves or has
-- left. The messages of the leaving repository are the messages that it has acknowledged to publishers.
with departed as (
  select m.run_id, m.src as node_id, get_json_object(m.body, '$.topic') as topic, min(m.sent_round) as round
  from sent_message m
  left join moved_member c on c.run_id = m.run_id and c.kind = 'remove' and c.node_id = m.src
    and c.topic = get_json_object(m.body, '$.topic') and c.round <= m.sent_round
  where m.kind = 'Gossip-LEAVE' and m.src = cast(get_json_object(m.body, '$.origin') as bigint) and c.run_id is null
  group by m.run_id, m.src, get_json_object(m.body, '$.topic')
), heard as (
  select d.run_id, d.node_id, d.topic, d.round, m.message_id, m.due_round,
    cast(get_json_object(m.body, '$.origin') as bigint) as member,
    from_json(get_json_object(m.body, '$.leaving'), 'array<bigint>') as leaving,
    from_json(get_json_object(m.body, '$.left'), 'array<bigint>') as gone
  from departed d
  join sent_message m on m.run_id = d.run_id and m.dst = d.node_id and m.kind = 'Gossip-ACK' and m.fate = 'delivered'
    and m.due_round <= d.round and get_json_object(m.body, '$.topic') = d.topic
), moving as (
  select run_id, node_id, topic, explode(leaving) as member from heard
  union
  select run_id, node_id, topic, explode(gone) as member from heard
), remaining as (
  select h.run_id, h.node_id, h.topic, h.round, h.member, max(h.due_round) as heard_round,
    max(case when array_contains(h.leaving, h.node_id) then 1 else 0 end) as n_knowing
  from heard h
  left join moving g on g.run_id = h.run_id and g.node_id = h.node_id and g.topic = h.topic and g.member = h.member
  where g.run_id is null
  group by h.run_id, h.node_id, h.topic, h.round, h.member
), staying as (
  select m.*
  from remaining m
  join parameter r on r.run_id = m.run_id
  where m.heard_round > m.round - r.protocol_assist_rounds
), told as (
  select h.run_id, h.node_id, h.topic, h.member, e.publisher, e.incarnation, max(case when e.seq is not null then e.n end)
    as n, collect_set(case when e.seq is null then e.n end) as beyond
  from heard h
  join gossip_entry e on e.run_id = h.run_id and e.message_id = h.message_id
  group by h.run_id, h.node_id, h.topic, h.member, e.publisher, e.incarnation
)
select s.run_id, s.round, s.node_id, cast(null as bigint) as source,
  concat('leaves, and ', n.name, ' does not know that it leaves') as detail
from staying s
join node n on n.run_id = s.run_id and n.node_id = s.member
where s.n_knowing = 0
union all
select distinct s.run_id, s.round, s.node_id, a.publisher as source,
  concat('leaves, and ', n.name, ' has not told that it has number ', a.n, ' of its publisher') as detail
from staying s
join node n on n.run_id = s.run_id and n.node_id = s.member
join acknowledged_number a on a.run_id = s.run_id and a.node_id = s.node_id and a.topic = s.topic
  and a.sent_round <= s.round
left join told t on t.run_id = s.run_id and t.node_id = s.node_id and t.topic = s.topic and t.member = s.member
  and t.publisher = a.publisher and t.incarnation = a.incarnation and (t.n >= a.n or array_contains(t.beyond, a.n))
where t.run_id is null
