-- A row is a sequence number that an S2R-ACK on a link acknowledges. steering: the repository that assigned the number.
with range as (
  select run_id, src, dst, sent_round, due_round, fate, get_json_object(body, '$.topic') as topic,
    cast(get_json_object(body, '$.origin') as bigint) as client,
    cast(get_json_object(body, '$.designation') as bigint) as designation,
    cast(get_json_object(body, '$.steering') as bigint) as steering,
    explode(from_json(get_json_object(body, '$.runs'), 'array<struct<first:bigint,last:bigint>>')) as one
  from sent_message
  where kind = 'S2R-ACK'
)
select run_id, src, dst, sent_round, due_round, fate, topic, client, designation, steering,
  explode(sequence(one.first, one.last)) as seq
from range
