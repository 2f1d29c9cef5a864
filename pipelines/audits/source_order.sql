-- audit, is_of_deliveries: a subscriber gets the publications of a source in their order
-- A row is a delivery that follows the delivery, in an earlier round, of a later publication of the same source. The
-- audit applies to protocols that guarantee the order of a source. If the protocol does not confirm calls, the audit
-- ignores publications that the subscriber did not request (view receiver). They may have been sent before the
-- subscription reached their source, and a recovery may deliver them late. The audit cannot judge two deliveries in one
-- round, because the history does not record their order.
with followed as (
  select *, max(source_seq) over (
    partition by run_id, subscriber, source order by delivery_round, source_seq
    rows between unbounded preceding and 1 preceding
  ) as newest
  from first_delivery
)
select f.run_id, f.delivery_round as round, f.subscriber as node_id, f.source, f.source_seq,
  concat('delivered in round ', f.delivery_round, ', after call ', f.newest, ' of the same source') as detail
from followed f
join run r on r.run_id = f.run_id
join protocol t on t.name = r.protocol
left join receiver w on w.run_id = f.run_id and w.subscriber = f.subscriber
  and w.source = f.source and w.source_seq = f.source_seq
where f.newest > f.source_seq and t.keeps_source_order and (t.confirms or w.run_id is not null)
