-- A row is a publication that a live subscriber lacks and another live subscriber has, with the round from which
-- subscribers compare tries; is_late: whether the time since this round sufficed to deliver the publication (rule K19).
with member as (
  select s.run_id, s.node_id, s.topic, count(1) over (partition by s.run_id, s.topic) as n_subscribers
  from state_subscription s
  where s.wants
), held as (
  select run_id, node_id, topic, publication.source as source, publication.source_seq as source_seq,
    publication.issued_round as issued_round
  from state_trie_node
  where publication is not null
), there as (
  select h.run_id, h.topic, h.source, h.source_seq, min(h.issued_round) as issued_round
  from held h
  join member m on m.run_id = h.run_id and m.node_id = h.node_id and m.topic = h.topic
  group by h.run_id, h.topic, h.source, h.source_seq
)
select t.run_id, m.node_id, t.topic, t.source, t.source_seq,
  greatest(t.issued_round, c.clean_round, s.fault_round) as since_round,
  c.clean_round is not null and s.last_round - greatest(t.issued_round, c.clean_round, s.fault_round)
    >= (2 * m.n_subscribers + 16) * (s.interval_rounds + s.max_delay) as is_late
from there t
join member m on m.run_id = t.run_id and m.topic = t.topic
join ring_setting s on s.run_id = t.run_id
join convergence c on c.run_id = t.run_id and c.topic = t.topic and c.is_last
left join held h on h.run_id = t.run_id and h.node_id = m.node_id and h.topic = t.topic
  and h.source = t.source and h.source_seq = t.source_seq
where h.node_id is null
