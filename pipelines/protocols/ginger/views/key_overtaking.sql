-- How often did a publication overtake an earlier publication of the same source that shares no key item with it?
-- One row per run, subscriber and source that has a pair (protocol ginger). A pair consists of two publications of the
-- source on one topic that the subscriber delivered. Both are in causal or total order, and they share no key item.
-- Causal order is by topic and key item (rule G4), so the protocol does not order the publications of a pair.
-- :n_pairs number of pairs
-- :n_overtaken number of pairs whose later publication was delivered in an earlier round than the earlier publication
-- :first_seq source_seq of the earlier publication of the first overtaken pair; null: no pair was overtaken
with ordered as (
  select run_id, source, source_seq, coalesce(topic, '') as topic, coalesce(keys, array('')) as keys
  from publication
  where guarantee in ('causal', 'total')
), pair as (
  select a.run_id, d.subscriber, a.source, a.source_seq, e.delivery_round < d.delivery_round as is_overtaken
  from ordered a
  join ordered b on b.run_id = a.run_id and b.source = a.source and b.topic = a.topic and b.source_seq > a.source_seq
  join first_delivery d on d.run_id = a.run_id and d.source = a.source and d.source_seq = a.source_seq
  join first_delivery e on e.run_id = b.run_id and e.source = b.source and e.source_seq = b.source_seq
    and e.subscriber = d.subscriber
  join run r on r.run_id = a.run_id
  where not arrays_overlap(a.keys, b.keys) and r.protocol = 'ginger'
), counted as (
  select run_id, subscriber, source, count(1) as n_pairs, count_if(is_overtaken) as n_overtaken,
    min(case when is_overtaken then source_seq end) as first_seq
  from pair
  group by run_id, subscriber, source
)
select c.run_id, c.subscriber, n.name as subscriber_name, c.source, p.name as source_name, c.n_pairs, c.n_overtaken,
  c.first_seq
from counted c
join node n on n.run_id = c.run_id and n.node_id = c.subscriber
join node p on p.run_id = c.run_id and p.node_id = c.source
