-- audit, is_unconditional: dispatchers without clients forward each digest of subscriber-based pull
-- A dispatcher without clients for the pattern forwards each digest of subscriber-based pull towards subscribers (rule
-- E2, Figure 3). The audit computes the dispatcher's table from the SUB and UNSUB of neighbours. It does not check
-- dispatchers with replaced links.
with received as (
  select g.run_id, g.dst as node_id, g.src as sender, g.due_round as round, g.initiator, g.pattern_id, g.digest
  from gossip g
  left join link_change x on x.run_id = g.run_id and g.dst in (x.a, x.b)
  where g.style = 'subscriber' and g.fate = 'delivered' and x.run_id is null
), passing as (
  select r.*
  from received r
  left join client_pattern s on s.run_id = r.run_id and s.node_id = r.node_id and s.pattern_id = r.pattern_id
    and s.issued_round <= r.round and r.round <= s.until_round
  where s.run_id is null
), told as (
  select run_id, dst as node_id, src as neighbour, kind, due_round, message_id,
    cast(get_json_object(body, '$.pattern_id') as bigint) as pattern_id
  from sent_message
  where kind in ('SUB', 'UNSUB') and fate = 'delivered'
), crashed as (
  select run_id, node_id, round from fault_event where kind = 'crash'
), newest as (
  select p.run_id, p.node_id, p.sender, p.round, p.initiator, p.digest, t.neighbour, t.kind,
    row_number() over (partition by p.run_id, p.node_id, p.sender, p.round, p.initiator, p.digest, t.neighbour
      order by t.due_round desc, t.message_id desc) as age
  from passing p
  join told t on t.run_id = p.run_id and t.node_id = p.node_id and t.pattern_id = p.pattern_id
    and t.due_round <= p.round and t.neighbour <> p.sender
  left join crashed c on c.run_id = t.run_id and c.node_id = t.node_id and c.round >= t.due_round
    and c.round <= p.round
  where c.run_id is null
), owed as (
  select run_id, node_id, round, initiator, digest, min(neighbour) as neighbour
  from newest
  where age = 1 and kind = 'SUB'
  group by run_id, node_id, round, initiator, digest
)
select o.run_id, o.round, o.node_id,
  concat('does not forward the digest of node ', o.initiator, ', and node ', o.neighbour, ' has subscribers') as detail
from owed o
left join gossip s on s.run_id = o.run_id and s.src = o.node_id and s.sent_round = o.round
  and s.initiator = o.initiator and s.style = 'subscriber' and s.digest = o.digest
where s.run_id is null
