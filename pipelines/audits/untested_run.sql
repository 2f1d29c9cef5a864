-- The runs without a delivery and without an expected delivery: the numbers of publications, of subscriptions, and of
-- pairs of a publication and a subscription that it satisfies, and whether a message was sent.
with published as (
  select run_id, count(1) as n from publication group by run_id
), subscribed as (
  select run_id, count(1) as n from subscription group by run_id
), matched as (
  select run_id, count(1) as n from matching group by run_id
), busy as (
  select distinct run_id from sent_message where src <> dst
)
select r.run_id, coalesce(p.n, 0) as n_publications, coalesce(s.n, 0) as n_subscriptions,
  coalesce(m.n, 0) as n_matches, b.run_id is not null as is_busy
from run r
left join published p on p.run_id = r.run_id
left join subscribed s on s.run_id = r.run_id
left join matched m on m.run_id = r.run_id
left join busy b on b.run_id = r.run_id
left anti join delivery d on d.run_id = r.run_id
left anti join receiver w on w.run_id = r.run_id
order by r.run_id
