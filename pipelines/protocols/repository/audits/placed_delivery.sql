-- A row is a delivery, with the repository that steered the subscriber in the round of the delivery. seq: sequence
-- number of the message at this repository; null: the message has no number there.
select d.run_id, d.round, d.subscriber, d.source, d.source_seq, p.topic, p.designation, p.repository, s.seq,
  s.is_filled, n.name
from delivery d
join publication m on m.run_id = d.run_id and m.source = d.source and m.source_seq = d.source_seq
join parameter a on a.run_id = d.run_id and not a.protocol_baseline
left join designation_period p on p.run_id = d.run_id and p.subscriber = d.subscriber
  and p.topic = coalesce(m.topic, '') and d.round > p.designation and (p.end_round is null or d.round <= p.end_round)
left join stored_message s on s.run_id = d.run_id and s.node_id = p.repository and s.topic = p.topic
  and s.source = d.source and s.source_seq = d.source_seq
left join node n on n.run_id = d.run_id and n.node_id = p.repository
