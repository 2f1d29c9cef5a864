-- audit, is_of_deliveries: a subscriber delivers messages in the order of its steering repository
-- Rule P6. Within one designation the order is that of the repository's sequence numbers.
with followed as (
  select p.*, max(p.seq) over (
    partition by p.run_id, p.subscriber, p.topic, p.designation order by p.round, coalesce(e.position, 0), p.seq
    rows between unbounded preceding and 1 preceding) as newest
  from placed_delivery p
  left join ordered_delivery e on e.run_id = p.run_id and e.node_id = p.subscriber and e.source = p.source
    and e.source_seq = p.source_seq
  where p.seq is not null
)
select run_id, round, subscriber as node_id, source, source_seq,
  concat('it has number ', seq, ' at ', name, ', and was delivered after ', newest) as detail
from followed
where newest > seq
