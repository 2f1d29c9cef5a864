-- audit: a node forwards a flooded publication over all its edges
-- Section 4.3. A node that accepts a new publication sends it to all neighbours except the sender. A row is a copy that
-- a node did not send or should not have sent; the edges of the node did not change in that round.
with copy as (
  select run_id, src, dst, source, source_seq, sent_round, due_round, fate, get_json_object(body, '$.topic') as topic
  from sent_message
  where kind = 'PublishNew'
), taken as (
  select run_id, source as node_id, topic, source, source_seq, issued_round as round, cast(null as bigint) as sender
  from publication
  union all
  select c.run_id, c.dst as node_id, c.topic, c.source, c.source_seq, c.due_round as round, c.src as sender
  from copy c
  join delivery d on d.run_id = c.run_id and d.subscriber = c.dst and d.source = c.source
    and d.source_seq = c.source_seq and d.round = c.due_round
  where c.fate = 'delivered'
), state as (
  select run_id, node_id, topic, round, lead(round) over (partition by run_id, node_id, topic order by round) as ended,
    array_union(filter(array(`left`.node, `right`.node, ring.node), one -> one is not null),
      filter(transform(slots, slot -> slot.node), one -> one is not null)) as neighbours
  from state_configuration_change
), steady as (
  select t.*, s.neighbours
  from taken t
  join state s on s.run_id = t.run_id and s.node_id = t.node_id and s.topic = t.topic and s.round < t.round
    and coalesce(s.ended, t.round + 1) > t.round
), due as (
  select distinct run_id, node_id, topic, source, source_seq, round, explode(neighbours) as dst, sender from steady
), missing as (
  select d.run_id, d.round, d.node_id, d.source, d.source_seq,
    concat('takes it in round ', d.round, ' and does not pass it on to its neighbour ', n.name) as detail
  from due d
  join node n on n.run_id = d.run_id and n.node_id = d.dst
  left join copy c on c.run_id = d.run_id and c.src = d.node_id and c.dst = d.dst and c.source = d.source
    and c.source_seq = d.source_seq and c.sent_round = d.round
  where c.run_id is null and (d.sender is null or d.sender <> d.dst)
), extra as (
  select c.run_id, c.sent_round as round, c.src as node_id, c.source, c.source_seq, case
    when t.run_id is null then concat('passes it on to ', n.name, ' in round ', c.sent_round, ', when it takes no copy')
    when t.sender = c.dst then concat('passes it back to ', n.name)
    else concat('passes it on to ', n.name, ', which is no neighbour') end as detail
  from copy c
  join node n on n.run_id = c.run_id and n.node_id = c.dst
  left join taken t on t.run_id = c.run_id and t.node_id = c.src and t.source = c.source
    and t.source_seq = c.source_seq and t.round = c.sent_round
  left join steady s on s.run_id = c.run_id and s.node_id = c.src and s.source = c.source
    and s.source_seq = c.source_seq and s.round = c.sent_round
  where c.sent_round >= 0 and (t.run_id is null or t.sender = c.dst
    or (s.run_id is not null and not array_contains(s.neighbours, c.dst)))
)
select * from missing
union all
select * from extra
