-- audit: once a topic is legitimate for long enough, every subscriber has every publication
-- Section 4.2, rule K19. A row is a publication that a subscriber lacks or has not delivered, or that its publisher has
-- not kept. The audit does not check that a publisher delivers a publication that it issued without an earlier
-- subscription (rule K17).
select run_id, cast(null as bigint) as round, node_id, source, source_seq,
  concat('lacks it, and tries of topic ', topic, ' are compared since round ', since_round) as detail
from lacking
where is_late
union all
select run_id, issued_round as round, source as node_id, source, source_seq,
  'it has subscribed to the topic, and does not keep what it published' as detail
from nowhere
where is_member
union all
select t.run_id, cast(null as bigint) as round, t.node_id, t.publication.source as source,
  t.publication.source_seq as source_seq, concat('its trie of topic ', t.topic, ' has it, and it has not delivered it'
  ) as detail
from state_trie_node t
join state_subscription s on s.run_id = t.run_id and s.node_id = t.node_id and s.topic = t.topic
left join delivery d on d.run_id = t.run_id and d.subscriber = t.node_id and d.source = t.publication.source
  and d.source_seq = t.publication.source_seq
left join wanted_delivery w on w.run_id = t.run_id and w.subscriber = t.node_id and w.source = t.publication.source
  and w.source_seq = t.publication.source_seq
where s.wants and t.publication.source_seq > 0 and d.run_id is null
  and (t.node_id <> t.publication.source or w.run_id is not null)
