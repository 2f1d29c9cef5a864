-- audit: all replicas of a bank have equal balances, and no balance is negative
-- All replicas of a bank have equal balances after each total-order operation and at the end of a quiescent run. No
-- balance is negative (5.2). All replicas reject the same operations.
with compared as (
  select b.run_id, b.topic, b.account, b.source, b.source_seq, min(struct(b.balance, b.node_id)) as least,
    max(struct(b.balance, b.node_id)) as most, coalesce(min(b.is_refused) <> max(b.is_refused), false) as differs
  from balance b
  left join in_flight_run f on f.run_id = b.run_id
  where b.source is not null or f.run_id is null
  group by b.run_id, b.topic, b.account, b.source, b.source_seq
)
select c.run_id, c.most.node_id as node_id, c.source, c.source_seq,
  concat(c.account, ' of ', c.topic, ' holds ', c.most.balance, ', at ', n.name, ' ', c.least.balance,
    case when c.differs then '; refused at one only' else '' end) as detail
from compared c
join node n on n.run_id = c.run_id and n.node_id = c.least.node_id
where c.least.balance <> c.most.balance or c.differs
union all
select run_id, node_id, source, source_seq, concat(account, ' of ', topic, ' holds ', balance) as detail
from balance
where balance < 0
