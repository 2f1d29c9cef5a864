-- Which expected deliveries did not happen?
-- In a run that the horizon cut short, some of them may still have been on their way.
select e.run_id, e.subscriber, sn.name as subscriber_name, e.source, pn.name as source_name, e.source_seq,
  e.publication_round, e.subscription_id
from expected_delivery e
join node sn on sn.run_id = e.run_id and sn.node_id = e.subscriber
join node pn on pn.run_id = e.run_id and pn.node_id = e.source
left join delivery d on d.run_id = e.run_id and d.subscriber = e.subscriber
  and d.source = e.source and d.source_seq = e.source_seq
where d.run_id is null
