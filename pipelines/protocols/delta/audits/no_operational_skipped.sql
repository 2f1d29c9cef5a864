-- audit: no message skips an OPERATIONAL or REJOINING node on its path (Key Corollary)
-- Key Corollary: a message from A to B skips no node between A and B that is OPERATIONAL*. A recovered node is
-- OPERATIONAL* from the round of its first REJOIN (A.2). A learns of the recovery before this round: the recovered node
-- first gets answers from the closest node on the path to A, and from the recovered nodes in between. The audit checks
-- only plain messages: a Guided message over a bypass answers the SynRequest of its receiver, even if nodes in between
-- have recovered.
with far as (
  select m.run_id, m.kind, m.src, m.dst, m.sent_round, m.source, m.source_seq
  from sent_message m
  left join link l on l.run_id = m.run_id and l.src = m.src and l.dst = m.dst
  where m.kind in ('J', 'SUB', 'UNSUB', 'PUB', 'REJOIN') and m.src <> m.dst and l.run_id is null
    and get_json_object(m.body, '$.guide') is null
), between_ends as (
  select f.*, explode(slice(p.path, 2, size(p.path) - 2)) as node_id
  from far f
  join path p on p.run_id = f.run_id and p.node_id = f.src and p.target = f.dst
), absent as (
  select n.run_id, n.node_id, n.crash_round, coalesce(r.rejoin_round, n.end_round) as back_round
  from node_recovery n
  left join rejoin r on r.run_id = n.run_id and r.node_id = n.node_id and r.recovery_round = n.recovery_round
), passed as (
  select b.run_id, b.node_id, b.kind, b.src, b.dst, b.sent_round, b.source, b.source_seq
  from between_ends b
  left join absent a on a.run_id = b.run_id and a.node_id = b.node_id
  group by b.run_id, b.node_id, b.kind, b.src, b.dst, b.sent_round, b.source, b.source_seq
  having not coalesce(
    max(a.crash_round <= b.sent_round and coalesce(a.back_round > b.sent_round, true)), false)
)
select p.run_id, p.sent_round as round, p.node_id, p.source, p.source_seq,
  concat(p.kind, ' from ', s.name, ' to ', d.name, ' went past it') as detail
from passed p
join node s on s.run_id = p.run_id and s.node_id = p.src
join node d on d.run_id = p.run_id and d.node_id = p.dst
