-- audit, is_unconditional: two dispatchers do not always choose the same pattern
-- Two dispatchers that gossip in the same rounds do not always choose the same pattern (rule E4, push). A change is a
-- pair of successive common gossip rounds in which dispatcher X chooses different patterns. The audit considers only
-- changes during which dispatcher Y gets no event, so the cache of Y has events of both patterns in both rounds. A row
-- is a pair X, Y with 40 or more changes in which Y always chooses the patterns of X. If the draws are independent, the
-- probability of a row is at most 2^-40.
with chosen as (
  select distinct run_id, initiator as node_id, sent_round as round, pattern_id
  from gossip
  where style = 'push' and src = initiator
), common as (
  select a.run_id, a.node_id, b.node_id as other, a.round, a.pattern_id, b.pattern_id as other_pattern_id,
    lag(a.round) over (partition by a.run_id, a.node_id, b.node_id order by a.round) as before_round,
    lag(a.pattern_id) over (partition by a.run_id, a.node_id, b.node_id order by a.round) as before_id,
    lag(b.pattern_id) over (partition by a.run_id, a.node_id, b.node_id order by a.round) as other_before_id
  from chosen a
  join chosen b on b.run_id = a.run_id and b.round = a.round and b.node_id > a.node_id
), arrived as (
  select run_id, dst as node_id, due_round as round from sent_message where kind in ('EVENT', 'REPLY')
  union all
  select run_id, source as node_id, issued_round as round from publication
), change as (
  select distinct c.run_id, c.node_id, c.other, c.round,
    case when c.pattern_id = c.other_pattern_id and c.before_id = c.other_before_id then 0 else 1 end as n_unequal
  from common c
  left join arrived e on e.run_id = c.run_id and e.node_id = c.other and e.round > c.before_round and e.round <= c.round
  where c.before_id <> c.pattern_id and e.run_id is null
)
select run_id, max(round) as round, other as node_id,
  concat('chooses the pattern that node ', node_id, ' chooses, in ', count(1), ' changes of the pattern') as detail
from change
group by run_id, node_id, other
having count(1) >= 40 and sum(n_unequal) = 0
