-- A row is a publication that no live subscriber has; is_member: whether its publisher is a live subscriber.
with member as (
  select run_id, node_id, topic from state_subscription where wants
), held as (
  select distinct t.run_id, t.topic, t.publication.source as source, t.publication.source_seq as source_seq
  from state_trie_node t
  join member m on m.run_id = t.run_id and m.node_id = t.node_id and m.topic = t.topic
  where t.publication is not null
)
select p.run_id, p.topic, p.source, p.source_seq, p.issued_round, o.node_id is not null as is_member
from publication p
join (select distinct run_id, topic from member) a on a.run_id = p.run_id and a.topic = p.topic
left join held h on h.run_id = p.run_id and h.topic = p.topic and h.source = p.source and h.source_seq = p.source_seq
left join member o on o.run_id = p.run_id and o.topic = p.topic and o.node_id = p.source
where h.source is null
