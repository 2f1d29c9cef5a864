-- Subscriptions that must have entries (is_live: they are confirmed), or must have no entries (they have ended). A
-- subscription whose subscriber crashed before the confirmation has no row: it may have entries.
select run_id, subscription_id, subscriber, unsubscribed_round is null as is_live
from subscription
where ended_round is not null or (confirmed_round is not null and unsubscribed_round is null)
