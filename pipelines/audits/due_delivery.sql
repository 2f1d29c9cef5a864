-- The expected deliveries, each with the round of its first actual delivery, or null if it is missing.
select e.run_id, e.subscriber as node_id, e.source, e.source_seq, e.publication_round, p.confirmed_round,
  d.delivery_round as delivered_round, t.confirms_delivery, b.run_id is not null as is_busy
from expected_delivery e
join publication p on p.run_id = e.run_id and p.source = e.source and p.source_seq = e.source_seq
join run r on r.run_id = e.run_id
join protocol t on t.name = r.protocol
left join busy_run b on b.run_id = e.run_id
left join first_delivery d on d.run_id = e.run_id and d.subscriber = e.subscriber
  and d.source = e.source and d.source_seq = e.source_seq
