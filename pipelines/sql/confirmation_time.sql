-- How many rounds did each publication and subscription take from its issue to its confirmation?
-- Calls without a confirmation have no row.
select run_id, 'publication' as call, source as node_id, source_seq, cast(null as bigint) as subscription_id,
  issued_round, confirmed_round, confirmed_round - issued_round as confirmation_rounds
from publication
where confirmed_round is not null
union all
select run_id, 'subscription' as call, subscriber as node_id, cast(null as bigint) as source_seq, subscription_id,
  issued_round, confirmed_round, confirmed_round - issued_round as confirmation_rounds
from subscription
where confirmed_round is not null
