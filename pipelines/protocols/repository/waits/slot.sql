-- Messages with a number after the frontier of a repository that is up. If neither the publisher nor a live member has
-- the missing message, the reason names the dead members that may have it.
with first as (
  select run_id, node_id, topic, seq, publisher, incarnation, n, source_seq from state_slot where status = 'reserved'
), blocking as (
  select f.run_id, f.node_id, f.topic, min(f.seq) as seq from first f group by f.run_id, f.node_id, f.topic
), held_up as (
  select f.run_id, f.node_id, f.topic, f.seq, f.publisher, f.incarnation, f.source_seq, f.n, 'reserved' as status
  from first f
  union all
  select s.run_id, s.node_id, s.topic, s.seq, s.publisher, s.incarnation, s.source_seq, s.n, 'stored' as status
  from state_slot s
  join blocking b on b.run_id = s.run_id and b.node_id = s.node_id and b.topic = s.topic and s.seq > b.seq
  where s.status = 'stored'
), unstable as (
  select u.run_id, u.node_id, u.topic, p.incarnation, u.n, u.publication.source_seq as source_seq
  from state_unstable u
  join state_publishing p on p.run_id = u.run_id and p.node_id = u.node_id and p.topic = u.topic
), dead as (
  select distinct run_id, topic, names from dead_member
), available as (
  select s.run_id, s.topic, s.source as publisher, s.incarnation, s.n
  from stored_message s
  join state_log l on l.run_id = s.run_id and l.node_id = s.node_id and l.topic = s.topic and not l.is_left
  left join node_recovery c on c.run_id = s.run_id and c.node_id = s.node_id and c.recovery_round is null
  where c.run_id is null
  union
  select run_id, topic, node_id as publisher, incarnation, n from unstable
), lost as (
  select f.run_id, f.node_id, f.topic, f.seq, d.names
  from first f
  join dead d on d.run_id = f.run_id and d.topic = f.topic
  left join available a on a.run_id = f.run_id and a.topic = f.topic and a.publisher = f.publisher
    and a.incarnation = f.incarnation and a.n = f.n
  where a.run_id is null
)
select h.run_id, h.node_id, h.publisher as source, coalesce(h.source_seq, u.source_seq) as source_seq, concat(case
    when h.status = 'stored' then concat('it is stored as number ', h.seq, ', after number ', b.seq,
      ', which is reserved for catenation number ', f.n, ' of ', p.name)
    when l.node_id is not null then concat('number ', h.seq, ' is reserved for it, and R2R-NAK requests it from the bundle')
    when d.is_active then concat('number ', h.seq, ' is reserved for it, and R2P-NAK requests it from its publisher')
    else concat('number ', h.seq, ' is reserved for it, and no gossip has named a repository that has it') end,
    case when x.names is null then ''
      else concat('; only ', x.names, ' may have that message: let this member recover, or remove it') end) as reason
from held_up h
join blocking b on b.run_id = h.run_id and b.node_id = h.node_id and b.topic = h.topic
join first f on f.run_id = b.run_id and f.node_id = b.node_id and f.topic = b.topic and f.seq = b.seq
join node p on p.run_id = f.run_id and p.node_id = f.publisher
left join state_lacking l on l.run_id = h.run_id and l.node_id = h.node_id and l.topic = h.topic
  and l.publisher = h.publisher and l.incarnation = h.incarnation and l.n = h.n
left join state_designation d on d.run_id = h.run_id and d.node_id = h.node_id and d.topic = h.topic
  and d.client = h.publisher and d.role = 'publisher'
left join lost x on x.run_id = h.run_id and x.node_id = h.node_id and x.topic = h.topic
  and x.seq = case when h.status = 'stored' then b.seq else h.seq end
left join unstable u on u.run_id = h.run_id and u.node_id = h.publisher and u.topic = h.topic
  and u.incarnation = h.incarnation and u.n = h.n
left join node_recovery c on c.run_id = h.run_id and c.node_id = h.node_id and c.recovery_round is null
where coalesce(h.source_seq, u.source_seq) is not null and c.run_id is null
