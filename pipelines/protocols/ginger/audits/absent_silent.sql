-- audit, is_dated: a broker sends nothing before it joins
-- Section 6.1, rule G24. A broker joins with its first ParentRequest. If a broker answered requests before it joins, a
-- node could become the child of a broker that is not in the tree.
with joiner as (
  select distinct run_id, node_id from state_contact where is_joining
), joined as (
  select j.run_id, j.node_id, min(q.sent_round) as round
  from joiner j
  left join sent_message q on q.run_id = j.run_id and q.src = j.node_id and q.kind = 'ParentRequest'
  group by j.run_id, j.node_id
)
select m.run_id, m.sent_round as round, m.src as node_id,
  concat('sends ', m.kind, ' to node ', m.dst, ', and has not joined') as detail
from joined j
join sent_message m on m.run_id = j.run_id and m.src = j.node_id and m.src <> m.dst
where j.round is null or m.sent_round < j.round
