-- A confirmed subscription must have entries (is_live); an ended subscription must have none. If the subscriber crashed
-- before the confirmation, the subscription may have entries; it has no row here.
select run_id, subscription_id, subscriber, unsubscribed_round is null as is_live
from subscription
where ended_round is not null or (confirmed_round is not null and unsubscribed_round is null)
