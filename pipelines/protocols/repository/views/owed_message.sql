-- Which publications are repositories to bring to each subscriber, did it get them, and what excuses one that did not come?
-- One row per run, subscriber and publication that satisfies a subscription (protocol repository); the subscription was
-- confirmed when the publication was issued, and is not taken back. Excuses (rule P23):
-- * subscriber_gone: the subscriber crashed for good;
-- * unauthorised: the subscriber or the publisher has no registration to the end, or only one by an owner that crashes;
-- * repositories_gone: no repository serves the topic to the end, see view topic_service;
-- * publisher_crashed: nobody has it who comes back, and its publisher crashed after it was issued;
-- * topic_blocked: nobody has it, and another publisher of the topic is gone for good.
-- :* publication
-- :topic its topic
-- :subscription_id the lowest of the subscriptions that it satisfies
-- :n_holders repositories that have it before their first reserved number and are not gone for good
-- :excuse what excuses that it did not come; null: nothing
with wanted as (
  select m.run_id, s.subscriber, m.source, m.source_seq, coalesce(p.topic, '') as topic, p.issued_round,
    min(m.subscription_id) as subscription_id
  from matching m
  join publication p on p.run_id = m.run_id and p.source = m.source and p.source_seq = m.source_seq
  join subscription s on s.run_id = m.run_id and s.subscription_id = m.subscription_id
  where s.confirmed_round <= p.issued_round and s.unsubscribed_round is null
  group by m.run_id, s.subscriber, m.source, m.source_seq, coalesce(p.topic, ''), p.issued_round
), gone as (
  select distinct run_id, node_id from node_recovery where recovery_round is null
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
), absent_owner as (
  select distinct o.run_id, o.topic
  from topic_owner o
  join node_recovery n on n.run_id = o.run_id and n.node_id = o.owner
), lasting as (
  select a.run_id, a.topic, a.node_id, a.role
  from authorisation a
  left join absent_owner o on o.run_id = a.run_id and o.topic = a.topic
  group by a.run_id, a.topic, a.node_id, a.role
  having count(a.end_round) = 0 and (min(a.from_round) < 0 or count(o.topic) = 0)
), first as (
  select run_id, subscriber, source, source_seq, min(round) as delivery_round
  from delivery
  group by run_id, subscriber, source, source_seq
)
select w.run_id, w.subscriber, sn.name as subscriber_name, w.topic, w.source, pn.name as source_name, w.source_seq,
  w.subscription_id, w.issued_round,
  coalesce(h.n_holders, 0) as n_holders, d.delivery_round, case
    when g.node_id is not null then 'subscriber_gone'
    when o.topic is not null and (ls.node_id is null or lp.node_id is null) then 'unauthorised'
    when v.n_serving = 0 then 'repositories_gone'
    when coalesce(h.n_holders, 0) > 0 then null
    when c.source is not null then 'publisher_crashed'
    when v.n_gone_publishers > 0 then 'topic_blocked' end as excuse
from wanted w
join node sn on sn.run_id = w.run_id and sn.node_id = w.subscriber
join node pn on pn.run_id = w.run_id and pn.node_id = w.source
join topic_service v on v.run_id = w.run_id and v.topic = w.topic
left join holder h on h.run_id = w.run_id and h.topic = w.topic and h.source = w.source and h.source_seq = w.source_seq
left join gone g on g.run_id = w.run_id and g.node_id = w.subscriber
left join orphaned c on c.run_id = w.run_id and c.source = w.source and c.source_seq = w.source_seq
left join topic_owner o on o.run_id = w.run_id and o.topic = w.topic
left join lasting ls on ls.run_id = w.run_id and ls.topic = w.topic and ls.node_id = w.subscriber and ls.role = 'subscriber'
left join lasting lp on lp.run_id = w.run_id and lp.topic = w.topic and lp.node_id = w.source and lp.role = 'publisher'
left join first d on d.run_id = w.run_id and d.subscriber = w.subscriber
  and d.source = w.source and d.source_seq = w.source_seq
