-- How long does a node whose parent failed take to find another parent, and to receive the messages that it missed?
-- One row per reconfiguration of a broker or a client (protocol ginger). A broker that is elected root sends no request
-- and has no row.
-- :number number of the reconfiguration at its node, from 0
-- :detected_round round in which the node sent its first ParentRequest, or, if that was earlier, its vote in an
--   election
-- :has_voted whether the node voted in an election
-- :n_requests ParentRequests that the node sent
-- :n_declined ParentRequests that brokers declined; requests without an answer are not counted
-- :parent new parent of the node; null: the reconfiguration did not end
-- :parent_name name of the parent
-- :ended_round round in which message LostMessages of the new parent arrived; null: the reconfiguration did not end
-- :reconfiguration_rounds rounds from detected_round to ended_round
-- :reconfiguration_ms reconfiguration_rounds in ms
with step as (
  select run_id, src as node_id, sent_round as round, kind, cast(null as bigint) as parent
  from sent_message
  where kind = 'ParentRequest' or (kind = 'RootElection' and get_json_object(body, '$.vote') is not null)
  union all
  select run_id, dst as node_id, due_round as round, kind, src as parent
  from message
  where fate = 'delivered' and (kind = 'LostMessages' or (kind = 'ParentResponse' and get_json_object(body, '$.answer') = 'declined'))
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
select c.run_id, c.node_id, n.name, n.role, c.number, c.detected_round, c.has_voted, c.n_requests, c.n_declined,
  c.parent, p.name as parent_name, c.ended_round, c.ended_round - c.detected_round as reconfiguration_rounds,
  (c.ended_round - c.detected_round) * r.round_ms as reconfiguration_ms
from counted c
join run r on r.run_id = c.run_id
join node n on n.run_id = c.run_id and n.node_id = c.node_id
left join node p on p.run_id = c.run_id and p.node_id = c.parent
where c.n_requests > 0
