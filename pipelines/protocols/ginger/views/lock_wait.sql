-- Which messages wait for a key item at a broker, behind which message, and for how long (rule G1)?
-- One row per run, broker, key item, waiting message and blocking message (protocol ginger). A wait that ends in the
-- round in which it begins has no row.
-- :topic topic of both messages
-- :key_item the key item of both messages
-- :source client that published the waiting message
-- :source_seq number of the waiting message among the calls of the source
-- :reason lock: an eventual or causal message waits in the entry queue until a total-order message unlocks the key
--   item; queue: a message waits in the entry queue behind an earlier message with the key item; order: a total-order
--   message that has locked the key item waits until an earlier total-order message with the key item is processed
-- :holder client that published the blocking message
-- :holder_name name of the holder
-- :holder_seq number of the blocking message among the calls of the holder
-- :since_round first round of the wait
-- :until_round round in which the wait ended; null: the message waits at the end of the run
-- :wait_rounds rounds from since_round to until_round
-- :wait_ms wait_rounds in ms
with came as (
  select m.run_id, m.dst as node_id, m.source, m.source_seq, min(m.due_round) as came_round, min(m.message_id) as came_id
  from sent_message m
  join node c on c.run_id = m.run_id and c.node_id = m.src and c.role <> 'broker'
  join node b on b.run_id = m.run_id and b.node_id = m.dst and b.role = 'broker'
  where m.kind = 'Metadata' and m.fate = 'delivered'
  group by m.run_id, m.dst, m.source, m.source_seq
), passed as (
  select run_id, src as node_id, source, source_seq, min(sent_round) as entered_round
  from sent_message
  where kind = 'Metadata'
  group by run_id, src, source, source_seq
), queued as (
  select c.run_id, c.node_id, p.topic, c.source, c.source_seq, p.guarantee, p.keys, c.came_round, c.came_id,
    e.entered_round
  from came c
  join publication p on p.run_id = c.run_id and p.source = c.source and p.source_seq = c.source_seq
  left join passed e on e.run_id = c.run_id and e.node_id = c.node_id and e.source = c.source
    and e.source_seq = c.source_seq
), lasting as (
  select *, coalesce(entered_round, 4611686018427387904) as last_round from queued
), lock as (
  select *, coalesce(unlocked_round, 4611686018427387904) as last_round from key_lock
), wait as (
  select q.run_id, q.node_id, q.topic, l.key_item, q.source, q.source_seq, 'lock' as reason, l.source as holder,
    l.source_seq as holder_seq, greatest(q.came_round, l.locked_round) as since_round,
    least(q.entered_round, l.unlocked_round) as until_round
  from lasting q
  join lock l on l.run_id = q.run_id and l.node_id = q.node_id and l.topic = q.topic
  where q.guarantee <> 'total' and array_contains(q.keys, l.key_item) and l.locked_round < q.last_round
    and l.last_round > q.came_round
  union all
  select q.run_id, q.node_id, q.topic, explode(array_intersect(q.keys, e.keys)) as key_item, q.source, q.source_seq,
    'queue' as reason, e.source as holder, e.source_seq as holder_seq, q.came_round as since_round,
    least(q.entered_round, e.entered_round) as until_round
  from lasting q
  join lasting e on e.run_id = q.run_id and e.node_id = q.node_id and e.topic = q.topic
  where arrays_overlap(q.keys, e.keys) and e.last_round > q.came_round
    and (e.came_round < q.came_round or (e.came_round = q.came_round and e.came_id < q.came_id))
  union all
  select l.run_id, l.node_id, l.topic, l.key_item, l.source, l.source_seq, 'order' as reason, e.source as holder,
    e.source_seq as holder_seq,
    greatest(l.locked_round, e.locked_round) as since_round, e.unlocked_round as until_round
  from lock l
  join lock e on e.run_id = l.run_id and e.node_id = l.node_id and e.topic = l.topic and e.key_item = l.key_item
    and e.number < l.number
)
select w.run_id, w.node_id, n.name, w.topic, w.key_item, w.source, s.name as source_name, w.source_seq, w.reason,
  w.holder, h.name as holder_name, w.holder_seq, w.since_round, w.until_round,
  w.until_round - w.since_round as wait_rounds, (w.until_round - w.since_round) * r.round_ms as wait_ms
from wait w
join run r on r.run_id = w.run_id
join node n on n.run_id = w.run_id and n.node_id = w.node_id
join node s on s.run_id = w.run_id and s.node_id = w.source
join node h on h.run_id = w.run_id and h.node_id = w.holder
where r.protocol = 'ginger' and coalesce(w.until_round, 4611686018427387904) > w.since_round
