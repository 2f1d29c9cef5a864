-- audit: a message that arrives at its own source is a duplicate
-- Rule R18. The audit does not check nodes that have crashed, because a crash deletes the duplicate detector.
select m.run_id, m.due_round as round, m.dst as node_id, m.source, m.source_seq,
  concat('takes its own ', m.kind, ' from node ', m.src, ' for a new one') as detail
from sent_message m
left join node_recovery n on n.run_id = m.run_id and n.node_id = m.dst and n.crash_round <= m.due_round
where m.kind in ('J', 'SUB', 'UNSUB', 'PUB') and m.dst = m.source and m.src <> m.dst and m.fate = 'delivered'
  and n.run_id is null
