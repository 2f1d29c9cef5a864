-- The elections of Alg. 7 at each voter, with the siblings that got its vote. An election ends with the voter's next
-- ParentRequest, or with its next TreeViewUpdate as the root; it has no end if the voter crashes before. A vote that
-- names other failed brokers than the voter's previous vote begins another election, even if an earlier vote has named
-- them. If a broker that searches for a parent answers a vote with a vote, this vote does not belong to an election.
-- :brokers failed brokers that the vote names
-- :degree residual degree in the vote
-- :winner receiver of the ParentRequest, or the voter itself
-- :end_round, :end_id round and id of the message that ends the election
-- :sibling_degree residual degree in the sibling's last vote that names the same failed brokers; null: the sibling has
--   sent no vote that names them
-- :is_out whether the sibling has answered without a vote
with compared as (
  select *, lag(brokers) over (partition by run_id, src order by message_id) as last_brokers
  from election_message
  where degree is not null
), numbered as (
  select *, sum(case when brokers = last_brokers then 0 else 1 end) over (partition by run_id, src order by message_id)
    as number
  from compared
), begun as (
  select run_id, src as node_id, brokers, min(message_id) as first_id, min(sent_round) as round,
    min_by(degree, message_id) as degree
  from numbered
  group by run_id, src, number, brokers
), vote as (
  select *, coalesce(lead(first_id) over (partition by run_id, node_id order by first_id), 9223372036854775807)
    as next_id
  from begun
), asked as (
  select run_id, src as node_id, dst, sent_round, message_id from sent_message where kind = 'ParentRequest'
), last_asked as (
  select v.run_id, v.node_id, v.brokers, v.first_id, v.round, max_by(a.dst, a.message_id) as dst,
    max(a.sent_round) as sent_round
  from vote v
  join asked a on a.run_id = v.run_id and a.node_id = v.node_id and a.message_id < v.first_id
  group by v.run_id, v.node_id, v.brokers, v.first_id, v.round
), searching as (
  select a.run_id, a.node_id, a.first_id
  from last_asked a
  left join sent_message r on r.run_id = a.run_id and r.kind = 'ParentResponse' and r.src = a.dst and r.dst = a.node_id
    and r.sent_round >= a.sent_round and r.due_round <= a.round and r.fate = 'delivered'
    and get_json_object(r.body, '$.answer') <> 'joining'
  where r.run_id is null and not contains(a.brokers, concat('"broker":', a.dst, ','))
), step as (
  select run_id, node_id, message_id, sent_round, dst as winner from asked
  union all
  select run_id, src as node_id, message_id, sent_round, src as winner
  from sent_message
  where kind = 'TreeViewUpdate' and not contains(body, '"n_up":0,"n_down":1,')
), ended as (
  select v.run_id, v.node_id, v.brokers, v.degree, v.first_id, v.round, min(s.message_id) as end_id,
    min_by(s.sent_round, s.message_id) as end_round, min_by(s.winner, s.message_id) as winner
  from vote v
  join step s on s.run_id = v.run_id and s.node_id = v.node_id and s.message_id > v.first_id and s.message_id < v.next_id
  left join searching b on b.run_id = v.run_id and b.node_id = v.node_id and b.first_id = v.first_id
  left join node_recovery c on c.run_id = v.run_id and c.node_id = v.node_id and c.crash_round > v.round
    and c.crash_round <= s.sent_round
  where b.run_id is null and c.run_id is null
  group by v.run_id, v.node_id, v.brokers, v.degree, v.first_id, v.round
), elector as (
  select distinct e.run_id, e.node_id, e.brokers, e.degree, e.round, e.end_id, e.end_round, e.winner, v.dst as sibling
  from ended e
  join election_message v on v.run_id = e.run_id and v.src = e.node_id and v.brokers = e.brokers
    and v.degree is not null and v.message_id >= e.first_id and v.message_id < e.end_id
)
select e.run_id, e.node_id, e.brokers, e.degree, e.round, e.end_id, e.end_round, e.winner, e.sibling,
  max_by(v.degree, v.message_id) as sibling_degree, count(o.run_id) > 0 as is_out
from elector e
left join election_message v on v.run_id = e.run_id and v.src = e.sibling and v.dst = e.node_id and v.fate = 'delivered'
  and v.due_round <= e.end_round and v.degree is not null and v.brokers = e.brokers
left join election_message o on o.run_id = e.run_id and o.src = e.sibling and o.dst = e.node_id
  and o.fate = 'delivered' and o.due_round between e.round and e.end_round and o.degree is null
group by e.run_id, e.node_id, e.brokers, e.degree, e.round, e.end_id, e.end_round, e.winner, e.sibling
