-- A row is a topic with its supervisor: the first supervisor clockwise from the topic's SHA-256 (rule K14).
with topics as (
  select distinct run_id, topic from ring_message
), clockwise as (
  select t.run_id, t.topic, n.node_id, sha2(n.name, 256) as point,
    case when sha2(n.name, 256) < sha2(t.topic, 256) then 1 else 0 end as is_behind
  from topics t
  join node n on n.run_id = t.run_id and n.role = 'supervisor'
), near as (
  select run_id, topic, node_id,
    row_number() over (partition by run_id, topic order by is_behind, point) as place
  from clockwise
)
select run_id, topic, node_id as supervisor from near where place = 1
