-- Messages in the buffer of their publisher that the steering repository has not acknowledged.
with dropped as (
  select run_id, source, source_seq, min(case when kind = 'Message' then struct(sent_round, dst) end) as first,
    max(case when kind = 'P2R-Order' then struct(sent_round, dst) end) as last_order
  from sent_message
  where kind in ('Message', 'P2R-Order') and fate in ('lost_link', 'lost_crash')
  group by run_id, source, source_seq
), dismissed as (
  select run_id, topic, node_id, max(end_round) as last_round
  from authorisation
  where role = 'publisher'
  group by run_id, topic, node_id
  having count(end_round) = count(1)
)
select u.run_id, u.node_id, u.publication.source as source, u.publication.source_seq as source_seq, concat(
    case when d.node_id is not null
      then concat('its publisher was deregistered in round ', d.last_round, ', and no repository has stored it')
      else concat('its publisher sent P2R-Order for it in round ', u.sent_round, ', and no repository has acknowledged it')
    end,
    case when l.first is null then ''
      else concat('; the copy sent to ', n.name, ' in round ', l.first.sent_round, ' was lost') end,
    case when o.name is null then ''
      else concat('; the P2R-Order sent to ', o.name, ' in round ', l.last_order.sent_round, ' was lost') end) as reason
from state_unstable u
left join dismissed d on d.run_id = u.run_id and d.topic = u.topic and d.node_id = u.node_id
left join dropped l on l.run_id = u.run_id and l.source = u.publication.source
  and l.source_seq = u.publication.source_seq
left join node n on n.run_id = l.run_id and n.node_id = l.first.dst
left join node o on o.run_id = l.run_id and o.node_id = l.last_order.dst
where not u.is_acknowledged
