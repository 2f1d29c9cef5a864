-- Gossip messages with the fields of their bodies: one row per message.
select run_id, message_id, src, dst, sent_round, due_round, fate, get_json_object(body, '$.style') as style,
  cast(get_json_object(body, '$.initiator') as bigint) as initiator,
  cast(get_json_object(body, '$.pattern_id') as bigint) as pattern_id, get_json_object(body, '$.path') as path,
  get_json_object(body, '$.digest') as digest,
  size(from_json(get_json_object(body, '$.digest'),
    'array<struct<source:bigint,pattern_id:bigint,number:bigint>>')) as n_entries
from sent_message
where kind = 'GOSSIP'
