-- How long does a node take to connect to the nodes behind a failed neighbour?
-- One row per bypass (protocol delta). A bypass is a series of connection requests of a node. The node sends each
-- further request of the series at the latest in the round in which the last of the earlier requests ends. Each request
-- ends with a STATUS of its receiver, or with the report that its receiver has failed. A bypass has several requests,
-- for example, if the nodes of a chain have failed.
-- :number number of the bypass at its node, from 0
-- :detected_round round in which the node sent the first CON_REQUEST of the bypass
-- :n_requests number of connection requests of the bypass
-- :n_answered number of these requests that ended with a STATUS; the receivers of the others failed, or the run ended
-- :ended_round round in which the last of these STATUS arrived; null: no STATUS arrived
-- :bypass_rounds rounds from detected_round to ended_round
-- :bypass_ms bypass_rounds in ms
with request as (
  select run_id, src as node_id, dst as peer, sent_round as asked_round
  from sent_message
  where kind = 'CON_REQUEST'
), told as (
  select run_id, dst as node_id, src as peer, due_round as round, 1 as is_answer
  from message
  where kind = 'STATUS' and fate = 'delivered'
  union all
  select run_id, dst as node_id, cast(get_json_object(body, '$.peer') as bigint) as peer, due_round as round,
    0 as is_answer
  from message
  where kind = 'DETECT' and fate = 'delivered'
), answered as (
  select r.run_id, r.node_id, r.peer, r.asked_round, min(struct(t.round, t.is_answer)) as answer
  from request r
  left join told t on t.run_id = r.run_id and t.node_id = r.node_id and t.peer = r.peer and t.round > r.asked_round
  group by r.run_id, r.node_id, r.peer, r.asked_round
), ended as (
  select run_id, node_id, peer, asked_round, answer.round as ended_round, answer.is_answer,
    max(coalesce(answer.round, asked_round)) over (
      partition by run_id, node_id order by asked_round, peer rows between unbounded preceding and 1 preceding
    ) as busy_round
  from answered
), numbered as (
  select *, count_if(asked_round > busy_round) over (
    partition by run_id, node_id order by asked_round, peer rows between unbounded preceding and current row
  ) as number
  from ended
), counted as (
  select run_id, node_id, number, min(asked_round) as detected_round, count(1) as n_requests,
    count_if(is_answer = 1) as n_answered, max(case when is_answer = 1 then ended_round end) as ended_round
  from numbered
  group by run_id, node_id, number
)
select c.run_id, c.node_id, n.name, c.number, c.detected_round, c.n_requests, c.n_answered, c.ended_round,
  c.ended_round - c.detected_round as bypass_rounds, (c.ended_round - c.detected_round) * r.round_ms as bypass_ms
from counted c
join run r on r.run_id = c.run_id
join node n on n.run_id = c.run_id and n.node_id = c.node_id
