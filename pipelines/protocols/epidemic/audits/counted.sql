-- The counters in the identifiers of received events: one row per copy of an event and pattern in the identifier of the
-- event.
with arrived as (
  select run_id, dst as node_id, source, source_seq, due_round,
    explode(split(get_json_object(body, '$.id'), ':')) as tag
  from sent_message
  where kind in ('EVENT', 'REPLY') and fate in ('delivered', 'duplicate')
)
select run_id, node_id, source, source_seq, due_round,
  cast(substring(split(tag, '-')[0], 2) as bigint) as pattern_id, cast(split(tag, '-')[1] as bigint) as number
from arrived
where tag like 'P%'
