-- Which repository did each subscriber designate, and for how long?
-- One row per run, subscriber, topic and designation (protocol repository). A designation is a subscriber's choice of a
-- steering repository.
-- :designation number of the designation: the round in which the client chose the repository (rule P12)
-- :repository designated repository
-- :repository_name name of the repository
-- :end_round last round of the designation; null: it lasts to the end of the run
with asked as (
  select distinct run_id, src as subscriber, get_json_object(body, '$.topic') as topic,
    cast(get_json_object(body, '$.designation') as bigint) as designation,
    cast(get_json_object(body, '$.steering') as bigint) as repository
  from sent_message
  where kind in ('S2R-Recovery', 'S2R-Subscribe') and src = cast(get_json_object(body, '$.origin') as bigint)
)
select a.run_id, a.subscriber, n.name as subscriber_name, a.topic, a.designation, a.repository,
  r.name as repository_name,
  lead(a.designation) over (partition by a.run_id, a.subscriber, a.topic order by a.designation) as end_round
from asked a
join node n on n.run_id = a.run_id and n.node_id = a.subscriber
left join node r on r.run_id = a.run_id and r.node_id = a.repository
