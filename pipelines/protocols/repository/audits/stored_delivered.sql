-- audit, is_dated: an authorised subscriber gets every stored message that it subscribes to
-- Sections 3.7 and 3.8, rule P23. A row is a missing delivery without an excuse, to a subscriber that is up at the end.
-- Column round is the deadline of the delivery, or, without a deadline, the last round.
select o.run_id, coalesce(o.due_round, s.last_round) as round, o.subscriber as node_id, o.source, o.source_seq,
  case when o.n_holders > 0 then concat('stored at ', o.n_holders, ' repositories, and never delivered')
    else 'not stored, though its publisher did not crash' end as detail
from owed_message o
join settled_run s on s.run_id = o.run_id
where o.delivery_round is null and o.excuse is null and s.is_settled
