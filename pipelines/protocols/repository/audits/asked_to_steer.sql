-- audit: a repository steers only clients that have requested it
-- Section 4.1, rule P13. A row is the first event that a repository sent as the steering repository of a designation.
-- No request of the client with this designation had arrived. A designation that arrives by gossip or in an order is
-- not a request.
with said as (
  select run_id, kind, src, dst, sent_round, due_round, fate, get_json_object(body, '$.topic') as topic,
    cast(get_json_object(body, '$.origin') as bigint) as origin, cast(get_json_object(body, '$.to[0]') as bigint) as receiver,
    cast(get_json_object(body, '$.designation') as bigint) as designation,
    cast(get_json_object(body, '$.steering') as bigint) as steering
  from sent_message
  where kind in ('P2R-Recovery', 'S2R-Recovery', 'R2P-NAK', 'R2P-ACK', 'R2S-Sync', 'R2S-Rectify')
), notified as (
  select run_id, src as repository, get_json_object(body, '$.topic') as topic, sent_round, explode(from_json(
    get_json_object(body, '$.receivers'), 'array<struct<client:bigint,designation:bigint>>')) as one
  from sent_message
  where kind = 'R2S*-Persistent' and src = cast(get_json_object(body, '$.origin') as bigint)
), asked as (
  select run_id, topic, left(kind, 1) as role, origin as client, designation, steering as repository,
    min(due_round) as round
  from said
  where kind in ('P2R-Recovery', 'S2R-Recovery') and dst = steering and fate = 'delivered'
  group by run_id, topic, left(kind, 1), origin, designation, steering
), event as (
  select run_id, topic, substring(kind, 3, 1) as role, receiver as client, designation, origin as repository, sent_round
  from said
  where kind in ('R2P-NAK', 'R2P-ACK', 'R2S-Sync', 'R2S-Rectify') and src = origin
  union all
  select run_id, topic, 'S' as role, one.client as client, one.designation as designation, repository, sent_round
  from notified
), steered as (
  select run_id, topic, role, client, designation, repository, min(sent_round) as round
  from event
  group by run_id, topic, role, client, designation, repository
)
select s.run_id, s.round, s.repository as node_id,
  concat('steers ', n.name, ' by designation ', s.designation, ', and ',
    coalesce(concat('is asked in round ', a.round), 'is never asked')) as detail
from steered s
join node n on n.run_id = s.run_id and n.node_id = s.client
left join asked a on a.run_id = s.run_id and a.topic = s.topic and a.role = s.role and a.client = s.client
  and a.designation = s.designation and a.repository = s.repository
where a.round is null or a.round > s.round
