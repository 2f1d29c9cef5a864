-- How many gossip messages and retransmissions does a run send per event message?
-- One row per run with EVENT messages (protocol epidemic).
-- :n_events EVENT messages
-- :n_gossip GOSSIP and REQUEST messages
-- :n_retransmissions REPLY messages
-- :gossip_per_event n_gossip / n_events
-- :retransmissions_per_event n_retransmissions / n_events
with counted as (
  select run_id, count_if(kind = 'EVENT') as n_events, count_if(kind in ('GOSSIP', 'REQUEST')) as n_gossip,
    count_if(kind = 'REPLY') as n_retransmissions
  from sent_message
  group by run_id
)
select run_id, n_events, n_gossip, n_retransmissions, n_gossip / n_events as gossip_per_event,
  n_retransmissions / n_events as retransmissions_per_event
from counted
where n_events > 0
