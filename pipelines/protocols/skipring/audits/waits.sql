-- A row is a publication in a trie, with the reason why it has not reached all subscribers.
with kept as (
  select t.run_id, t.node_id, t.topic, t.publication.source as source, t.publication.source_seq as source_seq,
    coalesce(s.wants, false) as wants, s.label
  from state_trie_node t
  left join state_subscription s on s.run_id = t.run_id and s.node_id = t.node_id and s.topic = t.topic
  where t.publication is not null
), spread as (
  select run_id, topic, source, source_seq, count(1) as n_nodes, count_if(wants and label is not null) as n_on_ring
  from kept
  group by run_id, topic, source, source_seq
), member as (
  select run_id, topic, count(1) as n_subscribers, count_if(label is null) as n_without
  from state_subscription
  where wants
  group by run_id, topic
)
select k.run_id, k.node_id, k.source, k.source_seq, case
  when not k.wants then 'its publisher keeps it until it subscribes to the topic'
  when k.label is null then 'its publisher has no label yet'
  else concat(s.n_on_ring, ' of ', m.n_subscribers, ' subscribers have it, ', m.n_without,
    ' have no label yet; the next CheckTrie spreads it') end as reason
from spread s
join kept k on k.run_id = s.run_id and k.topic = s.topic and k.source = s.source and k.source_seq = s.source_seq
join member m on m.run_id = s.run_id and m.topic = s.topic
where (s.n_on_ring > 0 and s.n_on_ring < m.n_subscribers and k.wants and k.label is not null)
  or (s.n_on_ring = 0 and k.node_id = k.source)
