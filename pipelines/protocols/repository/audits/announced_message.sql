-- A row is a message that R2S*-Persistent, R2S-Rectify or R2S-Retransmit announces to a client, with its sequence number at
-- the repository.
with told as (
  select run_id, kind, dst as node_id, due_round, source, source_seq, body, get_json_object(body, '$.topic') as topic,
    cast(get_json_object(body, '$.origin') as bigint) as repository,
    cast(get_json_object(body, '$.designation') as bigint) as designation,
    cast(get_json_object(body, '$.seq') as bigint) as seq
  from sent_message
  where kind in ('R2S*-Persistent', 'R2S-Rectify', 'R2S-Retransmit') and fate = 'delivered'
), receiver as (
  select run_id, node_id, due_round, topic, repository, source, source_seq, seq,
    explode(from_json(get_json_object(body, '$.receivers'), 'array<struct<client:bigint,designation:bigint>>')) as one
  from told
  where kind = 'R2S*-Persistent'
), listed as (
  select run_id, node_id, due_round, topic, repository, designation, explode(from_json(
    get_json_object(body, '$.listed'), 'array<struct<seq:bigint,source:bigint,source_seq:bigint>>')) as one
  from told
  where kind = 'R2S-Rectify'
)
select run_id, node_id, due_round, topic, repository, one.designation as designation, seq, source, source_seq
from receiver
where one.client = node_id
union all
select run_id, node_id, due_round, topic, repository, designation, one.seq as seq, one.source as source,
  one.source_seq as source_seq
from listed
union all
select run_id, node_id, due_round, topic, repository, designation, seq, source, source_seq
from told
where kind = 'R2S-Retransmit'
