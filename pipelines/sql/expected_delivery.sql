-- Which publications does the protocol owe to each subscriber?
-- The rows of view receiver without an excuse: the subscription was active, the subscriber was OPERATIONAL from the
-- publication to its confirmation, and the publisher did not crash before the confirmation. A run that the horizon
-- ended early may lack expected deliveries: see run.verdict.
-- :* receiver
select run_id, subscriber, subscriber_name, source, source_name, source_seq, publication_round, subscription_id
from receiver
where excuse is null
