-- The subscriptions that determine the entries of nodes: confirmed subscriptions (is_live), which must have entries,
-- and ended subscriptions, which must have none. A subscription whose subscriber crashed before the confirmation has no
-- row, because it may have entries.
select run_id, subscription_id, subscriber, unsubscribed_round is null as is_live
from subscription
where ended_round is not null or (confirmed_round is not null and unsubscribed_round is null)
