-- How long does a node that lost its parent take to find another one, and to have all that it missed?
-- One row per reconfiguration of a broker or a client (protocol ginger), number 0 being the node's first. It begins in
-- detected_round, when the node asks the first broker or takes part in an election (has_voted), and ends in ended_round,
-- when LostMessages of its new parent have come; null: it did not end. n_requests counts its ParentRequests, n_declined
-- those that were declined; for the others but the last a timer expired. An elected root asks nobody, and has no row.
with step as (
  select run_id, src as node_id, sent_round as round, kind, cast(null as bigint) as parent
  from sent_message
  where kind = 'ParentRequest' or (kind = 'RootElection' and body <> 'null')
  union all
  select run_id, dst as node_id, due_round as round, kind, src as parent
  from message
  where fate = 'delivered' and (kind = 'LostMessages' or (kind = 'ParentResponse' and body = 'false'))
), numbered as (
  select *, count_if(kind = 'LostMessages') over (
    partition by run_id, node_id order by round, kind rows between unbounded preceding and current row
  ) - case when kind = 'LostMessages' then 1 else 0 end as number
  from step
), counted as (
  select run_id, node_id, number, min(round) as detected_round, max(kind = 'RootElection') as has_voted,
    count_if(kind = 'ParentRequest') as n_requests, count_if(kind = 'ParentResponse') as n_declined,
    max(case when kind = 'LostMessages' then parent end) as parent,
    max(case when kind = 'LostMessages' then round end) as ended_round
  from numbered
  group by run_id, node_id, number
)
select c.run_id, c.node_id, n.name, n.role, c.number, c.detected_round, c.has_voted, c.n_requests, c.n_declined, c.parent,
  c.ended_round, c.ended_round - c.detected_round as reconfiguration_rounds
from counted c
join node n on n.run_id = c.run_id and n.node_id = c.node_id
where c.n_requests > 0
