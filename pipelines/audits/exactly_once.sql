-- Every expected delivery happens exactly once, and no other does (report CSRG-570, section 4.2 and Theorem 1).
-- A delivery is missing when it cannot happen any more: no message is in flight and the run is decided, or the source
-- has its Conf. If a Conf does not mean that all have a publication, an audit of the protocol checks its receivers.
select run_id, publication_round as round, node_id, source, source_seq,
  concat('published in round ', publication_round, ', never delivered') as detail
from due_delivery
where delivered_round is null and confirms_delivery and (not is_busy or confirmed_round is not null)
union all
select run_id, round, node_id, source, source_seq, detail from stray_delivery
