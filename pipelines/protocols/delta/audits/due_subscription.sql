-- Confirmed subscriptions must exist (is_live), and ended ones must not. Subscriptions whose subscriber crashed before
-- the confirmation are undecided, and not judged.
select run_id, subscription_id, subscriber, unsubscribed_round is null as is_live
from subscription
where ended_round is not null or (confirmed_round is not null and unsubscribed_round is null)
