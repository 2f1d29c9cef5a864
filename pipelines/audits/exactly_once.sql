-- audit, is_of_deliveries: every matching subscriber gets a publication exactly once, and nobody else
-- Each expected delivery happens exactly once, and no other delivery happens (report CSRG-570, section 4.2, Theorem 1).
-- An expected delivery counts as missing if it has not happened and can no longer happen. There are two cases: the run
-- is decided and has no message in flight, or the publication is confirmed. If a protocol's confirmation does not imply
-- delivery, an audit of the protocol checks missing deliveries, and this audit does not.
select run_id, publication_round as round, node_id, source, source_seq,
  concat('published in round ', publication_round, ', never delivered') as detail
from due_delivery
where delivered_round is null and confirms_delivery and (not is_busy or confirmed_round is not null)
union all
select run_id, round, node_id, source, source_seq, detail from stray_delivery
