-- A row is a catenation number that a repository acknowledges individually, in field `single` of an R2P-ACK.
select run_id, src as node_id, get_json_object(body, '$.topic') as topic, sent_round,
  cast(get_json_object(body, '$.to[0]') as bigint) as publisher,
  cast(get_json_object(body, '$.incarnation') as bigint) as incarnation,
  explode(from_json(get_json_object(body, '$.single'), 'array<bigint>')) as n
from sent_message
where kind = 'R2P-ACK' and src = cast(get_json_object(body, '$.origin') as bigint)
