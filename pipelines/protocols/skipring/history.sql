-- The history of each topic, as `udfs.skipring.replay` reads it; {kinds} are the kinds of messages that it reads.
with configurations as (
  select run_id, topic, array_sort(collect_list(
    struct(round, node_id, topic, wants, label, `left`, `right`, ring, slots))) as configurations
  from state_configuration_change
  group by run_id, topic
), databases as (
  select run_id, topic, array_sort(collect_list(struct(round, node_id, label, subscriber, is_tuple))) as databases
  from state_database_change
  group by run_id, topic
), crashes as (
  select run_id, array_sort(collect_list(struct(round, node_id))) as crashes
  from fault_event
  where kind = 'crash'
  group by run_id
), reports as (
  select run_id, array_sort(collect_list(
    struct(due_round as round, cast(get_json_object(body, '$.peer') as bigint) as peer))) as reports
  from message
  where kind = 'NODE_DOWN' and fate = 'delivered'
  group by run_id
), messages as (
  select run_id, get_json_object(body, '$.topic') as topic, array_sort(collect_list(
    struct(message_id, kind, src, dst, sent_round, due_round, body))) as messages
  from sent_message
  where kind in ({kinds}) and fate <> 'lost_link'
  group by run_id, get_json_object(body, '$.topic')
), supervisors as (
  select run_id, array_sort(collect_list(struct(node_id, name))) as supervisors
  from node
  where role = 'supervisor'
  group by run_id
)
select c.run_id, c.topic, t.last_round, t.fault_round, c.configurations, d.databases, f.crashes, p.reports,
  m.messages, s.supervisors, cast(r.given['protocol.timeout_interval'] as bigint)
    + cast(r.given['protocol.max_delay'] as bigint) as interval_rounds,
  cast(r.given['protocol.silence_intervals'] as bigint) as silence_intervals,
  cast(r.given['protocol.detection_rounds'] as bigint) as detection_rounds
from (select run_id, from_json(parameters, 'map<string,string>') as given from run) r
join supervisors s on s.run_id = r.run_id
join fault_end t on t.run_id = r.run_id
join configurations c on c.run_id = r.run_id
left join databases d on d.run_id = c.run_id and d.topic = c.topic
left join messages m on m.run_id = c.run_id and m.topic = c.topic
left join crashes f on f.run_id = r.run_id
left join reports p on p.run_id = r.run_id
