-- Which publications does each subscriber have to get?
-- Those of view receiver without an excuse: the subscription stood, the subscriber stayed OPERATIONAL from the
-- publication to its confirmation, and the publisher did not crash before that. A run that the horizon cut short may
-- still owe what is expected: see run.verdict.
-- :* receiver
select run_id, subscriber, subscriber_name, source, source_name, source_seq, publication_round, subscription_id
from receiver
where excuse is null
