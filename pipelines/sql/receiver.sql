-- Which publications did each subscriber request, and what excuses a missing delivery?
-- One row per run, subscriber and publication. A subscriber requests a publication if one of its matching subscriptions
-- is active:
-- * If the protocol confirms calls, an active subscription was confirmed in or before the round of the publication
--   (confirmations are handled before calls). No unsubscription was issued before the publication was confirmed. In a
--   round, a node unsubscribes before it publishes. If an unsubscription was issued, an unconfirmed publication is not
--   requested.
-- * If the protocol does not confirm calls, deliveries to the node show from which publication on a subscription is
--   active. For a source, it is the publication of this source that was delivered first after the subscription was
--   issued. If faults let messages overtake each other, the subscription is active from the round of this delivery on
--   instead. For any other source, it is active from the first delivered publication of all sources on, but at the
--   earliest T rounds after it was issued. T is the sum of the latencies of all links, the longest time in which a
--   subscription or its end reaches a source. A subscriber's own publications of the round of the subscription count
--   from the first delivered one on, because a node issues calls that a pause held before later calls.
-- * Without confirmed calls, two types of deliveries do not count. First, the node had an earlier subscription that did
--   not end at least T rounds before the publication. Second, the publication was issued in the first T rounds of the
--   subscription, and a message of class recovery delivered it. Recovery also delivers publications from before the
--   subscription. If a fault of the run delays messages, T is unlimited. Then a delivery does not count if the node had
--   an earlier subscription or if recovery delivered it, and it shows nothing about other sources.
-- * Without confirmed calls, an unsubscription ends the subscription. A publication is then requested only if its
--   due_round precedes the unsubscription, and no copy was on a link in the round of the unsubscription.
-- :due_round round by which the delivery is due. If the protocol confirms a publication only after its delivery, it is
--   the round of the confirmation. If the protocol does not confirm calls, it is the round of the publication plus the
--   largest latency of a delivery in the run. null: the delivery is due by the end of the run
-- :subscription_id lowest id of the active subscriptions that the publication satisfies
-- :excuse subscriber_down: the subscriber was not OPERATIONAL in some round from the publication to due_round. If the
--   protocol does not confirm calls, the last of these rounds is the publication's round plus the sum of the latencies
--   of all links. If a fault delays messages or the protocol creates the links, it is the last round of the run;
--   publisher_crashed: the publisher crashed before the publication was confirmed; null: no excuse
with slowest as (
  select run_id, max(latency_rounds) as latency_rounds
  from delivery
  group by run_id
), crossing as (
  select r.run_id, coalesce(sum(l.latency_rounds), 0) as latency_rounds, sum(l.latency_rounds) as slowest_rounds
  from run r
  left join (
    select run_id, max(latency_rounds) as latency_rounds
    from link
    group by run_id, least(src, dst), greatest(src, dst)
  ) l on l.run_id = r.run_id
  left join (select distinct run_id from fault_event where kind in ('pause', 'delay', 'reorder')) f
    on f.run_id = r.run_id
  where f.run_id is null
  group by r.run_id
), recovered as (
  select distinct m.run_id, m.dst, m.source, m.source_seq, m.due_round
  from message m
  join run r on r.run_id = m.run_id
  join protocol t on t.name = r.protocol
  where m.source_seq is not null and not t.confirms and array_contains(t.recovery, m.kind)
), wanting as (
  select m.run_id, m.subscription_id, m.source, m.source_seq, s.subscriber, s.issued_round, s.confirmed_round,
    s.unsubscribed_round, p.issued_round as publication_round, p.confirmed_round as publication_confirmed_round,
    s.issued_round + x.latency_rounds as reached_round, p.issued_round + x.slowest_rounds as slowest_round,
    min(case when s.issued_round <= p.issued_round
      and coalesce(s.unsubscribed_round + x.latency_rounds > p.issued_round, true) then s.issued_round end)
      over (partition by m.run_id, s.subscriber, m.source, m.source_seq) as first_round
  from matching m
  join publication p on p.run_id = m.run_id and p.source = m.source and p.source_seq = m.source_seq
  join subscription s on s.run_id = m.run_id and s.subscription_id = m.subscription_id
  left join crossing x on x.run_id = m.run_id
), beginning as (
  select w.*, case when w.first_round < w.issued_round or d.delivery_round < w.issued_round then null
    when c.run_id is not null and coalesce(w.publication_round < w.reached_round, true) then null
    else d.delivery_round end as delivery_round
  from wanting w
  left join first_delivery d on d.run_id = w.run_id and d.subscriber = w.subscriber
    and d.source = w.source and d.source_seq = w.source_seq
  left join recovered c on c.run_id = d.run_id and c.dst = d.subscriber and c.source = d.source
    and c.source_seq = d.source_seq and c.due_round = d.delivery_round
), candidate as (
  select b.run_id, b.subscriber, b.source, b.source_seq, b.publication_round, b.subscription_id,
    t.confirms, b.confirmed_round, b.unsubscribed_round, b.reached_round,
    case when not t.confirms then b.publication_round + w.latency_rounds
         when t.confirms_delivery then b.publication_confirmed_round end as due_round,
    case when not t.confirms then b.slowest_round
         when t.confirms_delivery then b.publication_confirmed_round end as last_round,
    min(case when b.delivery_round is not null then b.publication_round end)
      over (partition by b.run_id, b.subscription_id) as service_round,
    first_value(case when b.delivery_round is null then null when o.run_id is null then b.publication_round
        else b.delivery_round end) over (
      partition by b.run_id, b.subscription_id, b.source order by b.delivery_round nulls last, b.publication_round desc
    ) as source_round,
    b.issued_round = b.publication_round and b.subscriber = b.source and b.source_seq < min(
      case when b.delivery_round is not null and b.issued_round = b.publication_round then b.source_seq end
    ) over (partition by b.run_id, b.subscription_id, b.source) as is_before
  from beginning b
  join run r on r.run_id = b.run_id
  join protocol t on t.name = r.protocol
  left join slowest w on w.run_id = b.run_id
  left join (select distinct run_id from fault_event where kind = 'reorder') o on o.run_id = b.run_id
), on_link as (
  select distinct a.run_id, a.subscription_id, a.source, a.source_seq
  from matching a
  join subscription s on s.run_id = a.run_id and s.subscription_id = a.subscription_id
  join message m on m.run_id = a.run_id and m.source = a.source and m.source_seq = a.source_seq
    and m.sent_round <= s.unsubscribed_round and m.due_round >= s.unsubscribed_round
  join run r on r.run_id = a.run_id
  join protocol t on t.name = r.protocol
  where not t.confirms
), stood as (
  select c.run_id, c.subscriber, c.source, c.source_seq, c.publication_round, c.due_round, c.last_round, c.confirms,
    min(c.subscription_id) as subscription_id
  from candidate c
  left join on_link l on l.run_id = c.run_id and l.subscription_id = c.subscription_id and l.source = c.source
    and l.source_seq = c.source_seq
  where case
    when confirms then confirmed_round <= publication_round
      and (unsubscribed_round is null or (unsubscribed_round >= due_round
        and (c.subscriber <> c.source or unsubscribed_round > publication_round)))
    else (source_round <= publication_round
        or (service_round <= publication_round and reached_round <= publication_round))
      and not coalesce(is_before, false)
      and (unsubscribed_round is null or (unsubscribed_round > due_round and l.run_id is null))
  end
  group by c.run_id, c.subscriber, c.source, c.source_seq, c.publication_round, c.due_round, c.last_round, c.confirms
), orphaned as (
  select distinct p.run_id, p.source, p.source_seq
  from publication p
  join node_recovery n on n.run_id = p.run_id and n.node_id = p.source
  where n.crash_round > p.issued_round and (p.confirmed_round is null or n.crash_round <= p.confirmed_round)
)
select s.run_id, s.subscriber, sn.name as subscriber_name, s.source, pn.name as source_name, s.source_seq,
  s.publication_round, s.due_round, s.subscription_id,
  case when max(n.crash_round) is not null then 'subscriber_down'
       when s.confirms and max(o.run_id) is not null then 'publisher_crashed' end as excuse
from stood s
join node sn on sn.run_id = s.run_id and sn.node_id = s.subscriber
join node pn on pn.run_id = s.run_id and pn.node_id = s.source
left join node_recovery n on n.run_id = s.run_id and n.node_id = s.subscriber
  and (s.last_round is null or n.crash_round <= s.last_round)
  and (n.end_round is null or n.end_round > s.publication_round)
left join orphaned o on o.run_id = s.run_id and o.source = s.source and o.source_seq = s.source_seq
group by s.run_id, s.subscriber, sn.name, s.source, pn.name, s.source_seq, s.publication_round, s.due_round,
  s.subscription_id, s.confirms
