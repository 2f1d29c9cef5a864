-- Which publications were never confirmed although the protocol confirms calls, and how many deliveries are missing?
-- :* publication
-- :n_expected number of expected deliveries of the publication
-- :n_missing number of expected deliveries of the publication that did not happen
-- :publisher_crash_round round of the publisher's first crash after the publication; null: the publisher did not crash,
--   so the protocol had to confirm the publication
with expected as (
  select run_id, source, source_seq, count(1) as n_expected
  from expected_delivery
  group by run_id, source, source_seq
), missing as (
  select run_id, source, source_seq, count(1) as n_missing
  from missing_delivery
  group by run_id, source, source_seq
), crashed as (
  select p.run_id, p.source, p.source_seq, min(n.crash_round) as publisher_crash_round
  from publication p
  join node_recovery n on n.run_id = p.run_id and n.node_id = p.source and n.crash_round > p.issued_round
  group by p.run_id, p.source, p.source_seq
)
select p.run_id, p.source, n.name as source_name, p.source_seq, p.issued_round, p.topic,
  coalesce(e.n_expected, 0) as n_expected, coalesce(m.n_missing, 0) as n_missing, c.publisher_crash_round
from publication p
join run r on r.run_id = p.run_id
join protocol t on t.name = r.protocol
join node n on n.run_id = p.run_id and n.node_id = p.source
left join expected e on e.run_id = p.run_id and e.source = p.source and e.source_seq = p.source_seq
left join crashed c on c.run_id = p.run_id and c.source = p.source and c.source_seq = p.source_seq
left join missing m on m.run_id = p.run_id and m.source = p.source and m.source_seq = p.source_seq
where t.confirms and p.confirmed_round is null
