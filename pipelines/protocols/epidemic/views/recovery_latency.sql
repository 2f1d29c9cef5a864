-- Which events were recovered, and how long did the recovery take?
-- One row per delivery of an event that arrived as REPLY (protocol epidemic).
-- :* delivery
-- :delivery_round round of the delivery
-- :message_id id of the REPLY with the event that arrived in delivery_round; the first one, if there are several
with reply as (
  select run_id, dst as subscriber, source, source_seq, due_round as round, min(message_id) as message_id
  from message
  where kind = 'REPLY' and fate = 'delivered'
  group by run_id, dst, source, source_seq, due_round
)
select d.run_id, d.subscriber, sn.name as subscriber_name, d.source, pn.name as source_name, d.source_seq,
  d.round - d.latency_rounds as publication_round, d.round as delivery_round, d.latency_rounds, d.latency_rounds * u.round_ms as latency_ms, r.message_id
from delivery d
join run u on u.run_id = d.run_id
join node sn on sn.run_id = d.run_id and sn.node_id = d.subscriber
join node pn on pn.run_id = d.run_id and pn.node_id = d.source
join reply r on r.run_id = d.run_id and r.subscriber = d.subscriber and r.source = d.source
  and r.source_seq = d.source_seq and r.round = d.round
