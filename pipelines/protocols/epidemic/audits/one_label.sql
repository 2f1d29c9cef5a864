-- audit, is_unconditional: a digest is about one pattern or one source, and never empty
-- Rule E5. A digest of subscriber-based pull is about a pattern, and a digest of publisher-based pull about a source.
select run_id, sent_round as round, src as node_id,
  'sends an empty digest' as detail
from gossip
where n_entries = 0
union all
select run_id, sent_round as round, src as node_id,
  concat('a digest about pattern ', of_pattern, ' lists an event of pattern ', pattern_id) as detail
from entry
where style = 'subscriber' and pattern_id <> of_pattern
union all
select run_id, min(sent_round) as round, min(src) as node_id,
  concat('a digest to a publisher lists events of ', count(distinct event_source), ' sources') as detail
from entry
where style = 'publisher'
group by run_id, message_id
having count(distinct event_source) > 1
