-- audit, is_dated: a subscriber acknowledges only numbers that its repository has announced in the designation
-- Section 3.8, rules P8 and P12. R2S*-Persistent, R2S-Rectify and R2S-Retransmit announce numbers. In another
-- designation or at another repository, the same number belongs to another message.
with first as (
  select run_id, node_id, topic, repository, designation, seq, min(due_round) as due_round
  from announced_message
  group by run_id, node_id, topic, repository, designation, seq
)
select a.run_id, a.sent_round as round, a.client as node_id,
  concat('acknowledges number ', a.seq, ' of ', r.name, ', which is not announced in designation ', a.designation)
    as detail
from acknowledged_seq a
join node r on r.run_id = a.run_id and r.node_id = a.steering
left join first f on f.run_id = a.run_id and f.node_id = a.client and f.topic = a.topic
  and f.repository = a.steering and f.designation = a.designation and f.seq = a.seq and f.due_round <= a.sent_round
where a.src = a.client and f.run_id is null
