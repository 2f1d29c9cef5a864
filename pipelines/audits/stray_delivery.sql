-- Repeated deliveries, and deliveries to a subscriber without a matching subscription. A subscription matches up to and
-- including the round of its end. Publications of the initial state, whose call numbers are below 1, need no matching
-- subscription, because no call issued them.
select run_id, last_round as round, subscriber as node_id, source, source_seq,
  concat('delivered ', n_deliveries, ' times, first in round ', first_round, ', last in round ', last_round) as detail
from duplicate_delivery
union all
select d.run_id, d.round, d.subscriber as node_id, d.source, d.source_seq,
  concat('delivered in round ', d.round, ' to a node without a matching subscription in that round') as detail
from delivery d
left join (
  select m.run_id, m.source, m.source_seq, s.subscriber, s.issued_round,
    coalesce(s.ended_round, 9223372036854775807) as last_round
  from matching m
  join subscription s on s.run_id = m.run_id and s.subscription_id = m.subscription_id
) wanted on wanted.run_id = d.run_id and wanted.source = d.source and wanted.source_seq = d.source_seq
  and wanted.subscriber = d.subscriber and d.round between wanted.issued_round and wanted.last_round
where wanted.subscriber is null and d.source_seq > 0
