-- The messages of elections: votes, and answers without a vote, whose degree is null.
select run_id, message_id, src, dst, sent_round, due_round, fate, get_json_object(body, '$.brokers') as brokers,
  cast(get_json_object(body, '$.vote') as bigint) as degree
from sent_message
where kind = 'RootElection'
