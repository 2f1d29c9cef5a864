-- Which publications are repositories to bring to each subscriber, did it get them, and what excuses one that did not come?
-- One row per run, subscriber and publication that satisfies a subscription (protocol repository); the subscription was
-- confirmed and not yet taken back when the publication was issued. A publication is known to be stored in the round of
-- its confirmation, or of its first delivery to anybody. An excuse is about its publication only: the subscriber's time
-- is over (subscription_ended, subscriber_gone, repositories_gone) excuses what was not known to be stored reach_rounds
-- before; see column end_round. Excuses (rule P23):
-- * subscription_ended: the last matching subscription was taken back too early;
-- * subscriber_gone: the subscriber crashed for good too early;
-- * repositories_gone: the last repository that serves the topic crashed for good or was asked to leave too early, see
--   view topic_service;
-- * unauthorised: the subscriber was deregistered before the publication was known to be stored, or its publisher has no
--   registration to the end and nobody stored it; or an owner that crashed may have lost the registration;
-- * publisher_crashed: nobody has it who comes back, its publisher crashed after it was issued, and it was not known to
--   be stored, or a repository is gone for good since.
-- :* publication
-- :topic its topic
-- :subscription_id the lowest of the subscriptions that it satisfies
-- :n_holders repositories that have it before their first reserved number and are not gone for good
-- :known_round round of its confirmation or first delivery, the earlier one; null: neither happened
-- :end_round first round in which the subscriber could not get it any more; null: it could to the end
-- :reach_rounds what it takes a stored publication to come: three ways without a fault before, else needed_rounds of
--   view settled_run
-- :excuse what excuses that it did not come; null: nothing
with wanted as (
  select m.run_id, s.subscriber, m.source, m.source_seq, coalesce(p.topic, '') as topic, p.issued_round, p.confirmed_round,
    min(m.subscription_id) as subscription_id,
    case when count(s.unsubscribed_round) = count(1) then max(s.unsubscribed_round) end as until_round
  from matching m
  join publication p on p.run_id = m.run_id and p.source = m.source and p.source_seq = m.source_seq
  join subscription s on s.run_id = m.run_id and s.subscription_id = m.subscription_id
  where s.confirmed_round <= p.issued_round and (s.unsubscribed_round is null or s.unsubscribed_round > p.issued_round)
  group by m.run_id, s.subscriber, m.source, m.source_seq, coalesce(p.topic, ''), p.issued_round, p.confirmed_round
), gone as (
  select run_id, node_id, min(crash_round) as gone_round
  from node_recovery where recovery_round is null
  group by run_id, node_id
), holder as (
  select h.run_id, h.topic, h.source, h.source_seq, count_if(g.node_id is null) as n_holders
  from stored_message h
  left join gone g on g.run_id = h.run_id and g.node_id = h.node_id
  where h.is_filled
  group by h.run_id, h.topic, h.source, h.source_seq
), orphaned as (
  select p.run_id, p.source, p.source_seq
  from publication p
  join node_recovery n on n.run_id = p.run_id and n.node_id = p.source and n.crash_round >= p.issued_round
  group by p.run_id, p.source, p.source_seq
), answer as (
  select run_id, dst as owner, get_json_object(body, '$.topic') as topic, due_round,
    cast(get_json_object(body, '$.client') as bigint) as client, get_json_object(body, '$.role') as role,
    cast(get_json_object(body, '$.number') as bigint) as number
  from message
  where kind = 'R2C-Confirm' and fate = 'delivered'
), held as (
  select a.run_id, a.topic, a.node_id, a.role, a.from_round, a.end_round, a.from_round < 0
    or count(n.node_id) = 0 or min(c.due_round) < min(n.crash_round) as is_certain
  from authorisation a
  join topic_owner o on o.run_id = a.run_id and o.topic = a.topic
  left join node_recovery n on n.run_id = o.run_id and n.node_id = o.owner
    and (n.recovery_round is null or n.recovery_round > a.from_round)
  left join answer c on c.run_id = a.run_id and c.topic = a.topic and c.owner = o.owner and c.client = a.node_id
    and c.role = a.role and c.number >= a.from_round and (a.end_round is null or c.number < a.end_round)
  group by a.run_id, a.topic, a.node_id, a.role, a.from_round, a.end_round
), standing as (
  select run_id, topic, node_id, role, count_if(end_round is null and is_certain) > 0 as is_lasting,
    max(case when is_certain then end_round end) as deregistered_round
  from held
  group by run_id, topic, node_id, role
), first as (
  select run_id, subscriber, source, source_seq, min(round) as delivery_round
  from delivery
  group by run_id, subscriber, source, source_seq
), seen as (
  select run_id, source, source_seq, min(delivery_round) as round from first group by run_id, source, source_seq
), fault as (
  select run_id, min(round) as round from fault_event group by run_id
), timed as (
  select w.*, least(w.confirmed_round, e.round) as known_round, g.gone_round, v.served_round,
    least(w.until_round, g.gone_round, v.served_round) as end_round,
    case when f.round is null or f.round >= least(w.until_round, g.gone_round, v.served_round) then s.ways_rounds
      else s.needed_rounds end as reach_rounds, s.needed_rounds, v.n_gone
  from wanted w
  join topic_service v on v.run_id = w.run_id and v.topic = w.topic
  join settled_run s on s.run_id = w.run_id
  left join seen e on e.run_id = w.run_id and e.source = w.source and e.source_seq = w.source_seq
  left join gone g on g.run_id = w.run_id and g.node_id = w.subscriber
  left join fault f on f.run_id = w.run_id
)
select w.run_id, w.subscriber, sn.name as subscriber_name, w.topic, w.source, pn.name as source_name, w.source_seq,
  w.subscription_id, w.issued_round, coalesce(h.n_holders, 0) as n_holders, w.known_round, w.end_round, w.reach_rounds,
  d.delivery_round, case
    when w.end_round <= coalesce(w.known_round, w.issued_round + w.needed_rounds) + w.reach_rounds then case
      when w.end_round = w.gone_round then 'subscriber_gone'
      when w.end_round = w.until_round then 'subscription_ended' else 'repositories_gone' end
    when o.topic is not null and not coalesce(ls.is_lasting, false)
      and (w.n_gone > 0 or not coalesce(w.known_round < ls.deregistered_round, false)) then 'unauthorised'
    when o.topic is not null and not coalesce(lp.is_lasting, false) and w.known_round is null then 'unauthorised'
    when coalesce(h.n_holders, 0) > 0 then null
    when c.source is not null and (w.known_round is null or w.n_gone > 0) then 'publisher_crashed' end as excuse
from timed w
join node sn on sn.run_id = w.run_id and sn.node_id = w.subscriber
join node pn on pn.run_id = w.run_id and pn.node_id = w.source
left join holder h on h.run_id = w.run_id and h.topic = w.topic and h.source = w.source and h.source_seq = w.source_seq
left join orphaned c on c.run_id = w.run_id and c.source = w.source and c.source_seq = w.source_seq
left join topic_owner o on o.run_id = w.run_id and o.topic = w.topic
left join standing ls on ls.run_id = w.run_id and ls.topic = w.topic and ls.node_id = w.subscriber and ls.role = 'subscriber'
left join standing lp on lp.run_id = w.run_id and lp.topic = w.topic and lp.node_id = w.source and lp.role = 'publisher'
left join first d on d.run_id = w.run_id and d.subscriber = w.subscriber
  and d.source = w.source and d.source_seq = w.source_seq
