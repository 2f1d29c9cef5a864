-- audit, is_dated: a delivered message is stored and announced before, and all subscribers get it or none does
-- Section 3.8. The steering repository announces a message by R2S*-Persistent, Rectify or R2S-Retransmit. On topics
-- without an owner, the audit does not check that all subscribers get a message or none does.
select run_id, round, subscriber as node_id, source, source_seq, case
    when repository is null then 'delivered without a steering repository'
    when seq is null then concat('delivered, and not stored at its steering repository ', name)
    else concat('delivered, and behind the first reserved number of ', name) end as detail
from placed_delivery
where seq is null or not is_filled
union all
select * from (
with first as (
  select run_id, node_id as subscriber, source, source_seq, min(due_round) as round
  from announced_message
  group by run_id, node_id, source, source_seq
)
select d.run_id, d.round, d.subscriber as node_id, d.source, d.source_seq,
  concat('delivered in round ', d.round, '; told to be stored ',
    coalesce(concat('in round ', f.round), 'never')) as detail
from delivery d
join parameter a on a.run_id = d.run_id and not a.protocol_baseline
left join first f on f.run_id = d.run_id and f.subscriber = d.subscriber
  and f.source = d.source and f.source_seq = d.source_seq
where f.round is null or f.round > d.round
) unnotified
union all
select o.run_id, coalesce(o.due_round, s.last_round) as round, o.subscriber as node_id, o.source, o.source_seq,
  concat('never delivered here, and delivered to ', count(t.subscriber), ' others, first in round ',
    min(t.delivery_round)) as detail
from owed_message o
join settled_run s on s.run_id = o.run_id and s.is_settled
join topic_owner r on r.run_id = o.run_id and r.topic = o.topic
join owed_message t on t.run_id = o.run_id and t.source = o.source and t.source_seq = o.source_seq
  and t.delivery_round is not null
where o.delivery_round is null and o.excuse is null
group by o.run_id, o.due_round, s.last_round, o.subscriber, o.source, o.source_seq
