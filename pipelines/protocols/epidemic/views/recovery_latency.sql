-- Which events were recovered, and how long did that take?
-- One row per delivery that a retransmission (REPLY, protocol epidemic) brought: the first reply that arrived in the round
-- of the delivery; latency_rounds counts from the publication.
with reply as (
  select run_id, dst as subscriber, source, source_seq, due_round as round, min(message_id) as message_id
  from message
  where kind = 'REPLY' and fate = 'delivered'
  group by run_id, dst, source, source_seq, due_round
)
select d.run_id, d.subscriber, d.source, d.source_seq, d.round - d.latency_rounds as publication_round,
  d.round as delivery_round, d.latency_rounds, r.message_id
from delivery d
join reply r on r.run_id = d.run_id and r.subscriber = d.subscriber and r.source = d.source
  and r.source_seq = d.source_seq and r.round = d.round
