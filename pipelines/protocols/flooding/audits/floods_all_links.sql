-- audit, is_unconditional: a node sends a publication once over all links except the one over which it arrived
-- Rules F2 and F6. A row is a neighbour that gets no copy, or a second copy, or a copy that goes back over the link over
-- which the publication arrived. The audit does not check runs with `max_hops`, whose nodes store no ids.
with arrived as (
  select run_id, dst as node_id, source, source_seq, min_by(src, struct(due_round, message_id)) as sender
  from sent_message
  where kind = 'PUB' and fate = 'delivered'
  group by run_id, dst, source, source_seq
), taken as (
  select s.run_id, s.node_id, s.source, s.source_seq, s.round,
    case when s.node_id = s.source then cast(null as bigint) else a.sender end as sender
  from state_seen s
  left join arrived a on a.run_id = s.run_id and a.node_id = s.node_id and a.source = s.source
    and a.source_seq = s.source_seq
), sent as (
  select run_id, src as node_id, dst, source, source_seq, count(distinct sent_round) as n_rounds,
    max(sent_round) as round
  from sent_message
  where kind = 'PUB'
  group by run_id, src, dst, source, source_seq
)
select t.run_id, t.round, t.node_id, t.source, t.source_seq, concat('is not sent to node ', l.dst) as detail
from taken t
join link l on l.run_id = t.run_id and l.src = t.node_id
left join sent m on m.run_id = t.run_id and m.node_id = t.node_id and m.dst = l.dst and m.source = t.source
  and m.source_seq = t.source_seq
where m.run_id is null and not l.dst <=> t.sender
union all
select t.run_id, m.round, t.node_id, t.source, t.source_seq,
  concat('is sent to node ', m.dst, case when m.dst <=> t.sender then ', from which it came' else ' again' end) as detail
from taken t
join sent m on m.run_id = t.run_id and m.node_id = t.node_id and m.source = t.source and m.source_seq = t.source_seq
where m.n_rounds > 1 or m.dst <=> t.sender
