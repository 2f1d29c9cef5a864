-- A row is a run that ended before its topics were legitimate, or before all publications had enough time to spread.
-- A PublishNew in flight at the end may still deliver its publication. A run whose partition lasts to its end is beyond
-- the bound, so nothing of it is left to decide.
with flying as (
  select run_id, get_json_object(body, '$.topic') as topic, source, source_seq, min(dst) as node_id
  from sent_message
  where kind = 'PublishNew' and fate = 'in_flight'
  group by run_id, get_json_object(body, '$.topic'), source, source_seq
), early as (
  select run_id, round, concat('topic ', topic, ': ', problem) as reason
  from convergence
  where is_last and problem is not null
  union all
  select l.run_id, l.since_round as round, concat(n.name, ' lacks publication ', l.source_seq, ' of ', s.name,
    ', and tries are compared since round ', l.since_round, ' only') as reason
  from lacking l
  join node n on n.run_id = l.run_id and n.node_id = l.node_id
  join node s on s.run_id = l.run_id and s.node_id = l.source
  where not l.is_late
  union all
  select w.run_id, w.issued_round as round, concat('publication ', w.source_seq, ' of ', s.name,
    ' is under way to node ', f.node_id, ', and no subscriber has it yet') as reason
  from nowhere w
  join node s on s.run_id = w.run_id and s.node_id = w.source
  join flying f on f.run_id = w.run_id and f.topic = w.topic and f.source = w.source and f.source_seq = w.source_seq
  where not w.is_member
)
select e.run_id, e.round, e.reason
from early e
left anti join endless_partition p on p.run_id = e.run_id
