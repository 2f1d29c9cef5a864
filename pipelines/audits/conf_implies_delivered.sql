-- audit: a publication is confirmed only after every matching subscriber has it
-- When a publication is confirmed, all expected subscribers have delivered it. The audit finds nothing for protocols
-- whose confirmation does not imply delivery.
select run_id, confirmed_round as round, node_id, source, source_seq,
  concat('confirmed in round ', confirmed_round, ', ',
    coalesce(concat('delivered in round ', delivered_round), 'never delivered')) as detail
from due_delivery
where confirms_delivery and confirmed_round is not null and coalesce(delivered_round > confirmed_round, true)
