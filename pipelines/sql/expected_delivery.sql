-- Which publications does each subscriber have to get?
-- One row per run, subscriber and publication; subscription_id is the lowest of the subscriptions that ask for it.
-- A subscription that the publication satisfies asks for it when it stood:
-- * Protocols that confirm: the subscription was confirmed when the publication was issued (in the same round is early
--   enough: confirmations are handled before calls), and no unsubscription was issued before the publication was
--   confirmed. With an unsubscription, a publication that is not confirmed is not expected.
-- * Protocols that do not confirm: it stands from the first publication that satisfies it and was delivered at its node
--   after it was issued (service looks begun to the subscriber), and up to an unsubscription; publications that may still have been on their way then, by the largest latency of the run, are
--   not expected. A delivery counts for every subscription of its node that it satisfies.
-- A run that the horizon cut short may still owe what is expected: see run.verdict.
with delivered as (
  select run_id, subscriber, source, source_seq, min(round) as delivered_round
  from delivery
  group by run_id, subscriber, source, source_seq
), slowest as (
  select run_id, max(latency_rounds) as latency_rounds
  from delivery
  group by run_id
), candidate as (
  select m.run_id, s.subscriber, m.source, m.source_seq, p.round as publication_round, m.subscription_id,
    t.confirms, s.confirmed_round, s.unsubscribed_round, w.latency_rounds, p.confirmed_round as publication_confirmed_round,
    min(case when d.delivered_round >= s.issued_round then p.round end)
      over (partition by m.run_id, m.subscription_id) as service_round
  from matching m
  join publication p on p.run_id = m.run_id and p.source = m.source and p.source_seq = m.source_seq
  join subscription s on s.run_id = m.run_id and s.subscription_id = m.subscription_id
  join run r on r.run_id = m.run_id
  join protocol t on t.name = r.protocol
  left join delivered d on d.run_id = m.run_id and d.subscriber = s.subscriber
    and d.source = m.source and d.source_seq = m.source_seq
  left join slowest w on w.run_id = m.run_id
)
select run_id, subscriber, source, source_seq, publication_round, min(subscription_id) as subscription_id
from candidate
where case
  when confirms then confirmed_round <= publication_round
    and (unsubscribed_round is null or unsubscribed_round >= publication_confirmed_round)
  else service_round <= publication_round
    and (unsubscribed_round is null or unsubscribed_round > publication_round + latency_rounds)
end
group by run_id, subscriber, source, source_seq, publication_round
