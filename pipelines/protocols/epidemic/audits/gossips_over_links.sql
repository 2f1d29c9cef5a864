-- audit, is_unconditional: gossip to a publisher goes over links that exist, unless unicast is allowed
-- Rule E12. The link must exist in the round of sending. Setting broken_route allows unicast.
with changed as (
  select run_id, a, b, min(case when kind = 'unlink' then round end) as end_round,
    min(case when kind = 'link' then round end) as begin_round
  from link_change
  group by run_id, a, b
), counted as (
  select g.run_id, g.message_id, g.src, g.dst, g.sent_round, g.initiator,
    case when c.begin_round is null or c.end_round <= c.begin_round then 1 else 0 end
      + sum(case when l.round > g.sent_round then 0 when l.kind = 'link' then 1 else -1 end) as n_links
  from gossip g
  join changed c on c.run_id = g.run_id and c.a = least(g.src, g.dst) and c.b = greatest(g.src, g.dst)
  join link_change l on l.run_id = c.run_id and l.a = c.a and l.b = c.b
  where g.style = 'publisher'
  group by g.run_id, g.message_id, g.src, g.dst, g.sent_round, g.initiator, c.begin_round, c.end_round
), unlinked as (
  select run_id, src, dst, sent_round, initiator from counted where n_links < 1
  union all
  select g.run_id, g.src, g.dst, g.sent_round, g.initiator
  from gossip g
  left join link l on l.run_id = g.run_id and l.src = g.src and l.dst = g.dst
  where g.style = 'publisher' and l.run_id is null
)
select u.run_id, u.sent_round as round, u.src as node_id,
  concat('sends gossip of node ', u.initiator, ' to node ', u.dst, ', to which it has no link') as detail
from unlinked u
join parameter r on r.run_id = u.run_id
where r.protocol_broken_route = 'drop'
