-- Which publications must repositories deliver to each subscriber, and what excuses a missing delivery?
-- One row per run, subscriber and publication that satisfies a subscription (protocol repository). The subscription was
-- confirmed and not ended when the publication was issued. A publication is known to be stored from known_round on. An
-- excuse concerns one row. The first three excuses name the event of end_round, which came too early: less than
-- reach_rounds after the publication was known to be stored. The excuses are (rule P23):
-- * subscription_ended: the last matching subscription ended too early;
-- * subscriber_gone: the subscriber crashed permanently too early;
-- * repositories_gone: the last repository that serves the topic (view topic_service) crashed permanently, or was asked
--   to leave, too early. If the service resumes, this does not concern publications that were issued after this event;
-- * unauthorised, in three cases: the subscriber was deregistered before the publication was known to be stored, or
--   when only a dead repository knew that it was stored; no repository stored the publication, and its publisher was
--   never registered for needed_rounds without a fault; the owner crashed, and may have lost the registration of the
--   subscriber or publisher;
-- * publisher_crashed: no live node has the publication, and its publisher crashed after issuing it. Either it was not
--   known to be stored, or a repository died before needed_rounds had passed without a fault.
-- :* publication
-- :topic topic of the publication
-- :subscription_id lowest id of the subscriptions that the publication satisfies
-- :n_holders number of live repositories that have stored the publication before their first reserved number
-- :known_round round of the confirmation, or of the first delivery if that is earlier; null: neither happened
-- :end_round first round in which the subscriber could no longer receive the publication; null: it could receive it to
--   the end
-- :due_round deadline of the delivery: needed_rounds (view settled_run) after known_round, or, if that is later, after
--   the start of a calm period (view calm_period) in which the subscriber is up; if known_round is null: twice
--   needed_rounds after the publish call, in a calm period; null: no calm period is long enough
-- :reach_rounds maximum number of rounds from the storage to the delivery of a publication: ways_rounds of view
--   settled_run if no fault occurred before end_round, else needed_rounds of view settled_run
-- :excuse reason that excuses the missing delivery; null: no excuse
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
), standing as (
  select run_id, topic, node_id, role, count_if(end_round is null and is_certain) > 0 as is_lasting,
    max(case when is_certain then end_round end) as deregistered_round
  from authorisation
  group by run_id, topic, node_id, role
), serviced as (
  select p.run_id, p.source, p.source_seq,
    case when v.resumed_round is null or p.issued_round < v.served_round then v.served_round end as served_round,
    case when p.issued_round >= v.served_round then v.resumed_round end as resumed_round
  from publication p
  join topic_service v on v.run_id = p.run_id and v.topic = coalesce(p.topic, '')
), seen as (
  select run_id, source, source_seq, min(delivery_round) as round from first_delivery group by run_id, source, source_seq
), fault as (
  select run_id, min(round) as round from fault_event group by run_id
), death as (
  select l.run_id, l.topic, g.gone_round
  from state_log l
  join gone g on g.run_id = l.run_id and g.node_id = l.node_id
), timed as (
  select w.*, least(w.confirmed_round, e.round) as known_round, g.gone_round, v.resumed_round,
    least(w.until_round, g.gone_round, v.served_round) as end_round,
    case when f.round is null or f.round >= least(w.until_round, g.gone_round, v.served_round) then s.ways_rounds
      else s.needed_rounds end as reach_rounds, s.needed_rounds, s.ways_rounds
  from wanted w
  join serviced v on v.run_id = w.run_id and v.source = w.source and v.source_seq = w.source_seq
  join settled_run s on s.run_id = w.run_id
  left join seen e on e.run_id = w.run_id and e.source = w.source and e.source_seq = w.source_seq
  left join gone g on g.run_id = w.run_id and g.node_id = w.subscriber
  left join fault f on f.run_id = w.run_id
), risked as (
  select t.run_id, t.source, t.source_seq, min(t.known_round) as known_round, min(t.needed_rounds) as needed_rounds,
    min(d.gone_round) as death_round
  from timed t
  join death d on d.run_id = t.run_id and d.topic = t.topic and d.gone_round >= t.known_round - t.ways_rounds
  group by t.run_id, t.source, t.source_seq
), bereaved as (
  select r.run_id, r.source, r.source_seq
  from risked r
  left join calm_period c on c.run_id = r.run_id
    and greatest(c.from_round, r.known_round) + r.needed_rounds <= least(c.to_round, r.death_round)
  group by r.run_id, r.source, r.source_seq
  having count(c.run_id) = 0
), down as (
  select run_id, node_id, crash_round, coalesce(recovery_round, 9223372036854775807) as recovery_round from node_recovery
), due as (
  select t.run_id, t.subscriber, t.source, t.source_seq,
    min(greatest(c.from_round, coalesce(t.known_round, t.issued_round + t.needed_rounds)) + t.needed_rounds) as due_round
  from timed t
  join calm_period c on c.run_id = t.run_id
    and greatest(c.from_round, coalesce(t.known_round, t.issued_round + t.needed_rounds)) + t.needed_rounds <= c.to_round
    and (t.known_round is not null or c.from_round <= t.issued_round)
    and (t.resumed_round is null or c.from_round >= t.resumed_round)
  left join down d on d.run_id = t.run_id and d.node_id = t.subscriber
    and c.from_round >= d.crash_round and c.from_round < d.recovery_round
  where d.run_id is null
  group by t.run_id, t.subscriber, t.source, t.source_seq
), storable as (
  select distinct t.run_id, t.source, t.source_seq
  from timed t
  join authorisation h on h.run_id = t.run_id and h.topic = t.topic and h.node_id = t.source and h.role = 'publisher'
    and h.is_certain
  join calm_period c on c.run_id = t.run_id and greatest(c.from_round, t.issued_round, h.from_round) + t.needed_rounds
    <= least(c.to_round, coalesce(h.end_round, c.to_round))
)
select w.run_id, w.subscriber, sn.name as subscriber_name, w.topic, w.source, pn.name as source_name, w.source_seq,
  w.subscription_id, w.issued_round, coalesce(h.n_holders, 0) as n_holders, w.known_round, e.due_round, w.end_round,
  w.reach_rounds, d.delivery_round, case
    when w.end_round <= coalesce(w.known_round, w.issued_round + w.needed_rounds) + w.reach_rounds then case
      when w.end_round = w.gone_round then 'subscriber_gone'
      when w.end_round = w.until_round then 'subscription_ended' else 'repositories_gone' end
    when o.topic is not null and not coalesce(ls.is_lasting, false)
      and (b.source is not null or not coalesce(w.known_round < ls.deregistered_round, false)) then 'unauthorised'
    when o.topic is not null and not coalesce(lp.is_lasting, false) and w.known_round is null and a.source is null
      then 'unauthorised'
    when coalesce(h.n_holders, 0) > 0 then null
    when c.source is not null and (w.known_round is null or b.source is not null) then 'publisher_crashed' end as excuse
from timed w
join node sn on sn.run_id = w.run_id and sn.node_id = w.subscriber
join node pn on pn.run_id = w.run_id and pn.node_id = w.source
left join holder h on h.run_id = w.run_id and h.topic = w.topic and h.source = w.source and h.source_seq = w.source_seq
left join orphaned c on c.run_id = w.run_id and c.source = w.source and c.source_seq = w.source_seq
left join topic_owner o on o.run_id = w.run_id and o.topic = w.topic
left join standing ls on ls.run_id = w.run_id and ls.topic = w.topic and ls.node_id = w.subscriber and ls.role = 'subscriber'
left join standing lp on lp.run_id = w.run_id and lp.topic = w.topic and lp.node_id = w.source and lp.role = 'publisher'
left join bereaved b on b.run_id = w.run_id and b.source = w.source and b.source_seq = w.source_seq
left join storable a on a.run_id = w.run_id and a.source = w.source and a.source_seq = w.source_seq
left join due e on e.run_id = w.run_id and e.subscriber = w.subscriber and e.source = w.source
  and e.source_seq = w.source_seq
left join first_delivery d on d.run_id = w.run_id and d.subscriber = w.subscriber
  and d.source = w.source and d.source_seq = w.source_seq
