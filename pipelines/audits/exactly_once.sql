-- Every expected delivery happens exactly once, and no other does (report CSRG-570, section 4.2 and Theorem 1).
-- One is missing when it cannot happen any more: nothing is in flight and the run is decided, or the source has its
-- Conf. Where a Conf says less than that all have a publication, an audit of the protocol's own says who must have it.
select run_id, publication_round as round, node_id, source, source_seq,
  concat('published in round ', publication_round, ', never delivered') as detail
from due_delivery
where delivered_round is null and confirms_delivery and (not is_busy or confirmed_round is not null)
union all
select run_id, round, node_id, source, source_seq, detail from stray_delivery
