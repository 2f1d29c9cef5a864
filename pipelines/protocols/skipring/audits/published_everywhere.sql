-- audit: once a topic is legitimate for long enough, every subscriber has every publication
-- Section 4.2, rule K19.
select run_id, cast(null as bigint) as round, node_id, source, source_seq,
  concat('lacks it, and tries of topic ', topic, ' are compared since round ', since_round) as detail
from lacking
where is_late
union all
select run_id, issued_round as round, source as node_id, source, source_seq,
  'it has subscribed to the topic, and does not keep what it published' as detail
from nowhere
where is_member
