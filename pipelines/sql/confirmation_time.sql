-- How long, in rounds and in ms, did each publication and subscription take from its issue to its confirmation?
-- Calls without a confirmation have no row.
-- :call publication or subscription
-- :node_id node that issued the call
-- :source_seq number of the publication among the calls of its node; null for a subscription
-- :subscription_id id of the subscription; null for a publication
-- :issued_round round in which the call was issued
-- :confirmed_round round in which the confirmation arrived
-- :confirmation_rounds rounds from issue to confirmation
-- :confirmation_ms confirmation_rounds in ms
with timed as (
  select run_id, 'publication' as `call`, source as node_id, source_seq, cast(null as bigint) as subscription_id,
    issued_round, confirmed_round, confirmed_round - issued_round as confirmation_rounds
  from publication
  where confirmed_round is not null
  union all
  select run_id, 'subscription' as `call`, subscriber as node_id, cast(null as bigint) as source_seq, subscription_id,
    issued_round, confirmed_round, confirmed_round - issued_round as confirmation_rounds
  from subscription
  where confirmed_round is not null
)
select t.run_id, t.`call`, t.node_id, n.name, t.source_seq, t.subscription_id, t.issued_round, t.confirmed_round,
  t.confirmation_rounds, t.confirmation_rounds * r.round_ms as confirmation_ms
from timed t
join run r on r.run_id = t.run_id
join node n on n.run_id = t.run_id and n.node_id = t.node_id
