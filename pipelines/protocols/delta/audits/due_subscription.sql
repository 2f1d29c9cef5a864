-- Subscriptions that were confirmed are due (is_live), and those that have ended are due to be gone. A subscriber that
-- crashed before the confirmation leaves that undecided: these are not judged.
select run_id, subscription_id, subscriber, unsubscribed_round is null as is_live
from subscription
where ended_round is not null or (confirmed_round is not null and unsubscribed_round is null)
