-- The publications that each IHAVE and IWANT names.
select run_id, kind, src, dst, sent_round, due_round, fate, get_json_object(body, '$.topic') as topic,
  explode(from_json(get_json_object(body, '$.ids'), 'array<struct<source:bigint,source_seq:bigint>>')) as id
from sent_message
where kind in ('IHAVE', 'IWANT')
