-- audit, is_dated: an orphan asks the parent of its failed parent before its siblings
-- Section 4.2.3, rule G11: ancestors come before siblings at equal hops. A row is a ParentRequest to a sibling in the
-- view. Its sender has not yet asked the parent of its failed parent, and does not know of a failure of that broker.
-- The audit takes the view from the last TreeViewUpdate, or else the initial view. It ignores a TreeViewUpdate to an
-- ended incarnation, and a TreeViewUpdate from a broker that has not accepted the present incarnation.
with accepted as (
  select run_id, src, dst, due_round, cast(get_json_object(body, '$.incarnation') as bigint) as incarnation
  from sent_message
  where kind = 'ParentResponse' and fate = 'delivered' and get_json_object(body, '$.answer') = 'accepted'
), received as (
  select m.run_id, m.message_id, m.src, m.dst, m.sent_round, m.due_round,
    coalesce(max(r.incarnation) + 1, 0) as incarnation
  from sent_message m
  left join node_recovery r on r.run_id = m.run_id and r.node_id = m.dst and r.recovery_round <= m.due_round
  where m.kind = 'TreeViewUpdate' and m.fate = 'delivered'
  group by m.run_id, m.message_id, m.src, m.dst, m.sent_round, m.due_round
), updated as (
  select distinct v.run_id, v.message_id, v.dst, v.sent_round, v.due_round
  from received v
  left join accepted a on a.run_id = v.run_id and a.src = v.src and a.dst = v.dst and a.incarnation = v.incarnation
    and a.due_round <= v.due_round
  where v.incarnation = 0 or a.run_id is not null
), view as (
  select run_id, dst as node_id, due_round, message_id,
    explode(from_json(get_json_object(body, '$.seen'), 'array<struct<broker:bigint,n_up:bigint,n_down:bigint>>'))
      as one
  from sent_message
  where kind = 'TreeViewUpdate' and fate = 'delivered'
), request as (
  select q.run_id, q.src as node_id, q.dst, q.sent_round, q.message_id, max_by(v.message_id, v.due_round) as view_id,
    max_by(v.sent_round, v.due_round) as view_round
  from sent_message q
  join node n on n.run_id = q.run_id and n.node_id = q.src and n.role = 'broker'
  left join updated v on v.run_id = q.run_id and v.dst = q.src and v.due_round <= q.sent_round
  where q.kind = 'ParentRequest'
  group by q.run_id, q.src, q.dst, q.sent_round, q.message_id
), asked as (
  select q.run_id, q.node_id, q.dst, q.sent_round, q.message_id, g.one.broker as above
  from request q
  join view s on s.run_id = q.run_id and s.message_id = q.view_id and s.one.broker = q.dst and s.one.n_up = 1
    and s.one.n_down = 0
  join view g on g.run_id = q.run_id and g.message_id = q.view_id and g.one.n_up = 0 and g.one.n_down = 1
  left join node_recovery c on c.run_id = q.run_id and c.node_id = q.node_id and c.crash_round <= q.sent_round
    and c.crash_round >= q.view_round
  where c.run_id is null
  union all
  select q.run_id, q.node_id, q.dst, q.sent_round, q.message_id, g.parent as above
  from request q
  join start_parent p on p.run_id = q.run_id and p.node_id = q.node_id
  join start_parent s on s.run_id = q.run_id and s.node_id = q.dst and s.parent = p.parent
  join start_parent g on g.run_id = q.run_id and g.node_id = p.parent
  left join node_recovery c on c.run_id = q.run_id and c.node_id = q.node_id and c.crash_round <= q.sent_round
  where q.view_id is null and c.run_id is null
), told as (
  select run_id, dst as node_id, due_round, cast(get_json_object(body, '$.failed') as bigint) as broker
  from sent_message where kind = 'Failed'
  union all
  select run_id, dst as node_id, due_round, cast(get_json_object(body, '$.peer') as bigint) as broker
  from sent_message where kind = 'NeighborDown'
  union all
  select run_id, node_id, due_round, one.broker from (
    select run_id, dst as node_id, due_round,
      explode(from_json(get_json_object(body, '$.brokers'), 'array<struct<broker:bigint>>')) as one
    from sent_message where kind = 'RootElection'
  )
)
select a.run_id, a.sent_round as round, a.node_id,
  concat('asks its sibling ', a.dst, ' before node ', a.above) as detail
from asked a
join parameter r on r.run_id = a.run_id and r.protocol_max_hops > 1
left join sent_message q on q.run_id = a.run_id and q.src = a.node_id and q.dst = a.above and q.kind = 'ParentRequest'
  and q.message_id < a.message_id
left join told t on t.run_id = a.run_id and t.node_id = a.node_id and t.broker = a.above and t.due_round <= a.sent_round
where q.run_id is null and t.run_id is null
