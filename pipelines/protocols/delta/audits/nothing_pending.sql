-- audit: when no message is in flight, no node waits for a message
-- A row is one of these, in a run that ends without a message in flight:
-- * an entry of ProcessingList: not all recipients have confirmed the message (Alg. 1, line 30);
-- * an open synchronisation (Alg. 5, line 8);
-- * a request without an answer (Alg. 4);
-- * a call or a join request that waits at an OPERATIONAL member;
-- * a recovering node, unless its join point never recovers or has not joined the overlay;
-- * an open join at an OPERATIONAL member, of a node that is up and was up in the round of its join call.
with unconfirmed as (
  select run_id, round, node_id, source, source_seq, kind,
    count_if(not coalesce(is_confirmed, false)) as n_recipients
  from state_processing
  group by run_id, round, node_id, source, source_seq, kind
), waiting as (
  select run_id, node_id, peer, 'still waits for routing information from ' as what from state_synch
  where not is_answered
  union all
  select run_id, node_id, peer, 'still owes routing information to ' as what from state_syn_request
  union all
  select run_id, node_id, peer, 'still waits for an answer from ' as what from state_peer where status = 'WAITING'
  union all
  select c.run_id, c.node_id, cast(null as bigint) as peer, concat('still holds back a call: ', c.kind) as what
  from state_call c
  join judged j on j.run_id = c.run_id and j.node_id = c.node_id
  union all
  select q.run_id, q.node_id, q.joiner as peer, 'still has to answer the join of ' as what
  from state_join_request q
  join judged j on j.run_id = q.run_id and j.node_id = q.node_id
), pending as (
  select run_id, round, node_id, source, source_seq,
    concat(kind, ' of round ', round, ' still waits for ', n_recipients, ' recipients') as detail
  from unconfirmed
  union all
  select w.run_id, cast(null as bigint) as round, w.node_id, cast(null as bigint) as source,
    cast(null as bigint) as source_seq, concat(w.what, coalesce(n.name, '')) as detail
  from waiting w
  left join node n on n.run_id = w.run_id and n.node_id = w.peer
  union all
  select r.run_id, r.recovery_round as round, r.node_id, cast(null as bigint) as source,
    cast(null as bigint) as source_seq, 'came back and is not OPERATIONAL yet' as detail
  from node_recovery r
  left join unreachable u on u.run_id = r.run_id and u.node_id = r.node_id
  where r.recovery_round is not null and r.end_round is null and u.run_id is null
  union all
  select o.run_id, cast(null as bigint) as round, o.node_id, cast(null as bigint) as source,
    cast(null as bigint) as source_seq, concat('joins at ', n.name, ' and is still ', o.status) as detail
  from state_join o
  join judged j on j.run_id = o.run_id and j.node_id = o.join_point
  join node n on n.run_id = o.run_id and n.node_id = o.join_point
  join issued_call i on i.run_id = o.run_id and i.node_id = o.node_id and i.kind = 'join'
  left join node_recovery c on c.run_id = o.run_id and c.node_id = o.node_id and c.end_round is null
  where o.status <> 'VALID_JOINED' and c.run_id is null
)
select p.run_id, p.round, p.node_id, p.source, p.source_seq, p.detail
from pending p
left join in_flight_run f on f.run_id = p.run_id
where f.run_id is null
