-- audit: the database of a legitimate topic has its subscribers with the first labels
-- Sections 2.1 and 3.1. A row is a tuple that differs from the definition. Label l(x) is bin(x) with the first digit
-- moved to the end. Crashed nodes have no database (rule K21).
with member as (
  select run_id, topic, node_id from state_subscription where wants
), size as (
  select run_id, topic, count(1) as n_subscribers from member group by run_id, topic
), wanted as (
  select run_id, topic, concat(substr(bin(x), 2), substr(bin(x), 1, 1)) as label
  from (select run_id, topic, explode(sequence(0L, n_subscribers - 1L)) as x from size) numbered
), changed as (
  select run_id, node_id, topic, label, subscriber, is_tuple,
    row_number() over (partition by run_id, node_id, topic, label order by round desc) as age
  from state_database_change
), crashed as (
  select distinct run_id, node_id from fault_event where kind = 'crash'
), tuple as (
  select c.run_id, c.node_id, c.topic, c.label, c.subscriber
  from changed c
  left join crashed x on x.run_id = c.run_id and x.node_id = c.node_id
  where c.age = 1 and c.is_tuple and x.node_id is null
), clean as (
  select run_id, topic from convergence where is_last and clean_round is not null
), served as (
  select s.run_id, s.topic, s.supervisor
  from topic_supervisor s
  join clean c on c.run_id = s.run_id and c.topic = s.topic
), held as (
  select run_id, node_id, topic, label from (
    select run_id, node_id, topic, label,
      row_number() over (partition by run_id, node_id, topic order by round desc) as age
    from state_configuration_change
  ) state where age = 1
), found as (
  select s.run_id, s.supervisor as node_id, s.topic, concat('label ', w.label, ' is missing in its database') as what
  from served s
  join wanted w on w.run_id = s.run_id and w.topic = s.topic
  left join tuple t on t.run_id = s.run_id and t.topic = s.topic and t.node_id = s.supervisor and t.label = w.label
  where t.label is null
  union all
  select t.run_id, t.node_id, t.topic, case
    when t.node_id <> s.supervisor then concat('it has label ', t.label, ' in a database, and is not the supervisor')
    when w.label is null then concat('its database has label ', t.label, ', which is none of the first ',
      coalesce(z.n_subscribers, 0))
    when m.node_id is null then concat('label ', t.label, ' is of node ', coalesce(cast(t.subscriber as string), '-'),
      ', which is no subscriber')
    else concat('label ', t.label, ' is of node ', t.subscriber, ', whose own label is ', coalesce(h.label, '-'))
    end as what
  from tuple t
  join served s on s.run_id = t.run_id and s.topic = t.topic
  left join size z on z.run_id = t.run_id and z.topic = t.topic
  left join wanted w on w.run_id = t.run_id and w.topic = t.topic and w.label = t.label
  left join member m on m.run_id = t.run_id and m.topic = t.topic and m.node_id = t.subscriber
  left join held h on h.run_id = t.run_id and h.topic = t.topic and h.node_id = t.subscriber
  where t.node_id <> s.supervisor or w.label is null or m.node_id is null or h.label is null or h.label <> t.label
)
select run_id, node_id, concat('topic ', topic, ': ', what) as detail
from found
