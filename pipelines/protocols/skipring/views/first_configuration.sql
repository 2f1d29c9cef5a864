-- How long does a subscriber wait for its first configuration, and for publications older than its subscription?
-- One row per run, subscriber and topic that the subscriber has subscribed to (protocol skipring).
-- :node_id the subscriber
-- :issued_round round of the subscriber's first subscription to the topic
-- :configured_round first round in which the subscriber has a label; -1: it has one in the initial state; null: never
-- :waited_rounds rounds from issued_round to configured_round, at least 0
-- :waited_ms waited_rounds in ms
-- :n_earlier publications of other nodes that were issued before issued_round and are stored in a trie at the end
-- :full_round round in which the subscriber had got all publications in n_earlier; null: some are missing, or n_earlier
--   is 0
-- :full_rounds rounds from issued_round to full_round, at least 0
-- :full_ms full_rounds in ms
with asked as (
  select s.run_id, s.subscriber as node_id, p.text as topic, min(s.issued_round) as issued_round
  from subscription s
  join predicate p on p.run_id = s.run_id and p.subscription_id = s.subscription_id and p.attribute = 'topic'
  group by s.run_id, s.subscriber, p.text
), labelled as (
  select run_id, node_id, topic, min(round) as configured_round
  from state_configuration_change
  where label is not null and wants
  group by run_id, node_id, topic
), published as (
  select distinct run_id, topic, publication.source as source, publication.source_seq as source_seq,
    publication.issued_round as published_round
  from state_trie_node
  where publication is not null
), got as (
  select run_id, subscriber as node_id, source, source_seq, min(round) as round
  from delivery
  group by run_id, subscriber, source, source_seq
), held as (
  select run_id, node_id, topic, publication.source as source, publication.source_seq as source_seq
  from state_trie_node
  where via = 'start'
), earlier as (
  select a.run_id, a.node_id, a.topic, count(1) as n_earlier,
    count_if(g.round is null and h.node_id is null) as n_lacking,
    max(coalesce(g.round, a.issued_round)) as full_round
  from asked a
  join published p on p.run_id = a.run_id and p.topic = a.topic and p.published_round < a.issued_round
    and p.source <> a.node_id
  left join got g on g.run_id = a.run_id and g.node_id = a.node_id and g.source = p.source
    and g.source_seq = p.source_seq
  left join held h on h.run_id = a.run_id and h.node_id = a.node_id and h.topic = a.topic and h.source = p.source
    and h.source_seq = p.source_seq
  group by a.run_id, a.node_id, a.topic
)
select a.run_id, a.node_id, n.name, a.topic, a.issued_round, l.configured_round,
  greatest(l.configured_round - a.issued_round, 0) as waited_rounds,
  greatest(l.configured_round - a.issued_round, 0) * r.round_ms as waited_ms, coalesce(e.n_earlier, 0) as n_earlier,
  case when e.n_lacking = 0 then e.full_round end as full_round,
  case when e.n_lacking = 0 then greatest(e.full_round - a.issued_round, 0) end as full_rounds,
  case when e.n_lacking = 0 then greatest(e.full_round - a.issued_round, 0) * r.round_ms end as full_ms
from asked a
join run r on r.run_id = a.run_id
join node n on n.run_id = a.run_id and n.node_id = a.node_id
left join labelled l on l.run_id = a.run_id and l.node_id = a.node_id and l.topic = a.topic
left join earlier e on e.run_id = a.run_id and e.node_id = a.node_id and e.topic = a.topic
