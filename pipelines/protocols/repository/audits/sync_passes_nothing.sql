-- audit, is_dated: a sync passes no message that its subscriber has not delivered
-- Sections 3.9 and 3.10, rule P16. A sync may pass messages of deregistered publishers, and messages that were stored
-- while the subscriber was deregistered (rule P25).
with told as (
  select run_id, src as repository, cast(get_json_object(body, '$.to[0]') as bigint) as subscriber,
    get_json_object(body, '$.topic') as topic, cast(get_json_object(body, '$.sync') as bigint) as seq, sent_round
  from sent_message
  where kind in ('R2S-Sync', 'R2S-Rectify') and src = cast(get_json_object(body, '$.origin') as bigint)
), interrupted as (
  select distinct run_id, topic, node_id from authorisation where end_round is not null
), along as (
  select run_id, repository, subscriber, topic, seq, sent_round, cast(null as bigint) as source,
    cast(null as bigint) as source_seq, cast(null as bigint) as delivery_round, cast(null as bigint) as end_round
  from told
  union all
  select o.run_id, s.node_id as repository, o.subscriber, o.topic, s.seq, cast(null as bigint) as sent_round, o.source,
    o.source_seq, o.delivery_round, o.end_round
  from owed_message o
  join stored_message s on s.run_id = o.run_id and s.topic = o.topic and s.source = o.source
    and s.source_seq = o.source_seq and s.seq is not null
  left join interrupted u on u.run_id = o.run_id and u.topic = o.topic and u.node_id in (o.subscriber, o.source)
  where coalesce(o.excuse, '') <> 'unauthorised' and u.node_id is null
), covered as (
  select *, min(sent_round) over (
    partition by run_id, repository, subscriber, topic order by seq desc
    range between unbounded preceding and current row) as synced_round
  from along
)
select c.run_id, c.synced_round as round, c.subscriber as node_id, c.source, c.source_seq,
  concat('a sync of ', n.name, ' passes number ', c.seq, ', delivered ',
    coalesce(concat('in round ', c.delivery_round), 'never')) as detail
from covered c
join node n on n.run_id = c.run_id and n.node_id = c.repository
where c.source is not null and c.synced_round is not null
  and (c.delivery_round is null or c.delivery_round >= c.synced_round)
  and (c.end_round is null or c.synced_round < c.end_round)
