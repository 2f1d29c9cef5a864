-- Which publications must the protocol deliver to each subscriber?
-- These are the rows of view receiver that have no excuse: the subscription was active, the subscriber was OPERATIONAL
-- from the publication to its confirmation, and the publisher did not crash before the confirmation. If the horizon
-- ended a run early, some expected deliveries may be missing: see run.verdict.
-- :* receiver
select run_id, subscriber, subscriber_name, source, source_name, source_seq, publication_round, subscription_id
from receiver
where excuse is null
