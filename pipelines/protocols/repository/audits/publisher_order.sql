-- audit, is_of_deliveries: messages of a publisher are delivered in the order of their publish calls
-- Section 3.5, rule P1. The messages are on one topic, and published between two crashes of the publisher.
with life as (
  select p.run_id, p.source, p.source_seq, coalesce(p.topic, '') as topic, count(n.node_id) as incarnation
  from publication p
  join parameter a on a.run_id = p.run_id and not a.protocol_baseline
  left join node_recovery n on n.run_id = p.run_id and n.node_id = p.source and n.recovery_round <= p.issued_round
  group by p.run_id, p.source, p.source_seq, coalesce(p.topic, '')
), followed as (
  select d.run_id, d.round, d.subscriber, d.source, d.source_seq, max(d.source_seq) over (
    partition by d.run_id, d.subscriber, d.source, l.topic, l.incarnation
    order by d.round, coalesce(e.position, 0), d.source_seq rows between unbounded preceding and 1 preceding) as newest
  from delivery d
  join life l on l.run_id = d.run_id and l.source = d.source and l.source_seq = d.source_seq
  left join ordered_delivery e on e.run_id = d.run_id and e.node_id = d.subscriber and e.source = d.source
    and e.source_seq = d.source_seq
)
select run_id, round, subscriber as node_id, source, source_seq,
  concat('delivered after publication ', newest, ' of the same life of its publisher') as detail
from followed
where newest > source_seq
