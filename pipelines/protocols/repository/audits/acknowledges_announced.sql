-- audit, is_dated: a subscriber acknowledges only numbers that its repository has announced in the designation
-- Section 3.8, rules P8 and P12. R2S*-Persistent, R2S-Rectify and R2S-Retransmit announce numbers. In another
-- designation or at another repository, the same number belongs to another message.
with range as (
  select run_id, src as node_id, sent_round, get_json_object(body, '$.topic') as topic,
    cast(get_json_object(body, '$.designation') as bigint) as designation,
    cast(get_json_object(body, '$.steering') as bigint) as repository,
    explode(from_json(get_json_object(body, '$.runs'), 'array<struct<first:bigint,last:bigint>>')) as one
  from sent_message
  where kind = 'S2R-ACK' and src = cast(get_json_object(body, '$.origin') as bigint)
), acknowledged as (
  select run_id, node_id, topic, designation, repository, explode(sequence(one.first, one.last)) as seq, sent_round
  from range
), told as (
  select run_id, kind, dst as node_id, due_round, body, get_json_object(body, '$.topic') as topic,
    cast(get_json_object(body, '$.origin') as bigint) as repository
  from sent_message
  where kind in ('R2S*-Persistent', 'R2S-Rectify', 'R2S-Retransmit') and fate = 'delivered'
), receiver as (
  select run_id, node_id, due_round, topic, repository, cast(get_json_object(body, '$.seq') as bigint) as seq,
    explode(from_json(get_json_object(body, '$.receivers'), 'array<struct<client:bigint,designation:bigint>>')) as one
  from told
  where kind = 'R2S*-Persistent'
), listed as (
  select run_id, node_id, due_round, topic, repository, cast(get_json_object(body, '$.designation') as bigint)
    as designation, explode(from_json(get_json_object(body, '$.listed'), 'array<struct<seq:bigint>>')) as one
  from told
  where kind = 'R2S-Rectify'
), announced as (
  select run_id, node_id, topic, repository, one.designation as designation, seq, due_round
  from receiver
  where one.client = node_id
  union all
  select run_id, node_id, topic, repository, designation, one.seq as seq, due_round from listed
  union all
  select run_id, node_id, topic, repository, cast(get_json_object(body, '$.designation') as bigint) as designation,
    cast(get_json_object(body, '$.seq') as bigint) as seq, due_round
  from told
  where kind = 'R2S-Retransmit'
), first as (
  select run_id, node_id, topic, repository, designation, seq, min(due_round) as due_round
  from announced
  group by run_id, node_id, topic, repository, designation, seq
)
select a.run_id, a.sent_round as round, a.node_id,
  concat('acknowledges number ', a.seq, ' of ', r.name, ', which is not announced in designation ', a.designation)
    as detail
from acknowledged a
join node r on r.run_id = a.run_id and r.node_id = a.repository
left join first f on f.run_id = a.run_id and f.node_id = a.node_id and f.topic = a.topic
  and f.repository = a.repository and f.designation = a.designation and f.seq = a.seq and f.due_round <= a.sent_round
where f.run_id is null
