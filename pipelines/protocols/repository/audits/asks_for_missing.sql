-- audit, is_dated: a repository requests only messages that it lacks
-- Sections 3.5 and 4.8, rules P20 and P24. A repository has a message on its disk if it has acknowledged the message or
-- listed it in Gossip-ACK. It also has a message if the message and its P2R-Order have arrived within 4 T_fail without
-- a crash of the repository in between. This second check excludes topics with an owner, requests after a crash of the
-- publisher, and repositories that join or have left.
with said as (
  select run_id, kind, src, dst, sent_round, due_round, fate, source, source_seq, body,
    get_json_object(body, '$.topic') as topic, cast(get_json_object(body, '$.origin') as bigint) as origin,
    cast(get_json_object(body, '$.incarnation') as bigint) as incarnation,
    cast(get_json_object(body, '$.n') as bigint) as n
  from sent_message
  where kind in ('R2P-NAK', 'R2R-NAK', 'Message', 'P2R-Order', 'P2R-Retransmit')
), announced as (
  select run_id, dst as node_id, topic, source as publisher, source_seq, incarnation, n, due_round
  from said
  where kind in ('P2R-Order', 'P2R-Retransmit') and fate = 'delivered'
), arrived as (
  select run_id, dst as node_id, topic, source as publisher, source_seq, due_round
  from said
  where kind in ('Message', 'P2R-Retransmit') and fate = 'delivered'
), closed as (
  select run_id, node_id, min(crash_round) as round from node_recovery group by run_id, node_id
), received as (
  select a.run_id, a.node_id, a.topic, a.publisher, a.incarnation, a.n, greatest(a.due_round, m.due_round)
    + r.protocol_store_rounds as round, coalesce(x.round, 9223372036854775807) as until_round
  from announced a
  join arrived m on m.run_id = a.run_id and m.node_id = a.node_id and m.topic = a.topic
    and m.publisher = a.publisher and m.source_seq = a.source_seq
  join parameter r on r.run_id = a.run_id
  left join topic_owner o on o.run_id = a.run_id and o.topic = a.topic
  left join moved_member v on v.run_id = a.run_id and v.topic = a.topic and v.node_id = a.node_id
    and (v.kind = 'join' or v.round <= greatest(a.due_round, m.due_round) + r.protocol_store_rounds)
  left join closed x on x.run_id = a.run_id and x.node_id = a.publisher
  left join node_recovery c on c.run_id = a.run_id and c.node_id = a.node_id
    and c.crash_round between least(a.due_round, m.due_round) and greatest(a.due_round, m.due_round)
      + r.protocol_store_rounds
  where abs(a.due_round - m.due_round) < 4 * r.protocol_failure_rounds
    and o.run_id is null and v.run_id is null and c.run_id is null
), possessed as (
  select run_id, node_id, topic, publisher, incarnation, n, sent_round as round, 9223372036854775807 as until_round
  from acknowledged_number
  union all
  select run_id, origin as node_id, topic, publisher, incarnation, n, sent_round as round,
    9223372036854775807 as until_round
  from gossip_entry
  where src = origin
  union all
  select run_id, node_id, topic, publisher, incarnation, n, round, until_round from received
), wanted as (
  select run_id, src as node_id, topic, sent_round, kind, cast(get_json_object(body, '$.to[0]') as bigint) as publisher,
    incarnation, explode(from_json(get_json_object(body, '$.ns'), 'array<bigint>')) as n
  from said
  where kind = 'R2P-NAK' and src = origin
), fetched as (
  select run_id, src as node_id, topic, sent_round, kind, explode(from_json(get_json_object(body, '$.keys'),
    'array<struct<publisher:bigint,incarnation:bigint,n:bigint>>')) as one
  from said
  where kind = 'R2R-NAK' and src = origin
), request as (
  select run_id, node_id, topic, sent_round, kind, publisher, incarnation, n from wanted
  union all
  select run_id, node_id, topic, sent_round, kind, one.publisher as publisher, one.incarnation as incarnation,
    one.n as n
  from fetched
)
select q.run_id, q.sent_round as round, q.node_id, q.publisher as source,
  concat(q.kind, ' requests number ', q.n, ' of its publisher, which it has since round ', min(h.round)) as detail
from request q
join possessed h on h.run_id = q.run_id and h.node_id = q.node_id and h.topic = q.topic and h.publisher = q.publisher
  and h.incarnation = q.incarnation and h.n = q.n and h.round < q.sent_round
  and q.sent_round < h.until_round
group by q.run_id, q.sent_round, q.node_id, q.publisher, q.kind, q.n
