-- audit, is_of_deliveries: a subscription gets no message that was stored before the subscription
-- Rule P10. A row is a delivery of a message that is not after the cut of any matching subscription; an ended
-- subscription has no cut.
with taken as (
  select d.run_id, d.round, d.subscriber, d.source, d.source_seq, u.subscription_id, u.unsubscribed_round
  from delivery d
  join matching m on m.run_id = d.run_id and m.source = d.source and m.source_seq = d.source_seq
  join subscription u on u.run_id = m.run_id and u.subscription_id = m.subscription_id and u.subscriber = d.subscriber
), begun as (
  select run_id, node_id, subscription_id, explode(cut) as one from state_subscribed where cut is not null
), placed as (
  select distinct run_id, source, source_seq, incarnation, n from stored_message
)
select t.run_id, t.round, t.subscriber as node_id, t.source, t.source_seq,
  concat('number ', p.n, ' of its publisher, and no subscription that asks for it starts before number ',
    min(b.one.n) + 1) as detail
from taken t
join placed p on p.run_id = t.run_id and p.source = t.source and p.source_seq = t.source_seq
left join begun b on b.run_id = t.run_id and b.node_id = t.subscriber and b.subscription_id = t.subscription_id
  and b.one.publisher = t.source and b.one.incarnation = p.incarnation
group by t.run_id, t.round, t.subscriber, t.source, t.source_seq, p.n
having count(t.unsubscribed_round) = 0 and min(coalesce(b.one.n, 0)) >= p.n
