-- audit, is_unconditional: a subscriber sends RequestFor for each ring neighbour nearer than the configuration's
-- Section 3.2.1, action (iii). A row is a neighbour that the subscriber had before a SetData, and for which it sends no
-- RequestFor. The neighbour lies between the subscriber and a neighbour of the configuration. Labels compare by value r
-- if zeros pad them to one length.
with removed as (
  select distinct run_id, dst as node_id, topic, due_round as round
  from ring_message
  where kind = 'Remove' and is_handled
), configured as (
  select run_id, dst as node_id, topic, due_round as round, count(1) as n_configurations, max(label) as label,
    max(before_node) as before_node, max(after_node) as after_node, min(is_valid) as is_valid,
    max(concat(rpad(before_label, 64, '0'), lpad(cast(before_node as string), 12, '0'))) as before_key,
    max(concat(rpad(after_label, 64, '0'), lpad(cast(after_node as string), 12, '0'))) as after_key,
    concat(rpad(max(label), 64, '0'), lpad(cast(dst as string), 12, '0')) as own_key
  from ring_message
  where kind = 'SetData' and is_handled
  group by run_id, dst, topic, due_round
), held as (
  select run_id, node_id, topic, round, until_round, peer.node as peer_id,
    concat(rpad(peer.label, 64, '0'), lpad(cast(peer.node as string), 12, '0')) as peer_key
  from (select run_id, node_id, topic, round, until_round, explode(peers) as peer from ring_state) one
  where length(peer.label) <= 62 and (peer.label = '0' or endswith(peer.label, '1'))
), ambiguous as (
  select run_id, node_id, topic, round, peer_id from held
  group by run_id, node_id, topic, round, peer_id having count(distinct peer_key) > 1
), near as (
  select c.*, h.peer_id
  from configured c
  join ring_state s on s.run_id = c.run_id and s.node_id = c.node_id and s.topic = c.topic and s.round <= c.round
    and s.until_round > c.round and s.wants
  join held h on h.run_id = c.run_id and h.node_id = c.node_id and h.topic = c.topic and h.round < c.round
    and h.until_round >= c.round
  left join ambiguous a on a.run_id = h.run_id and a.node_id = h.node_id and a.topic = h.topic and a.round = h.round
    and a.peer_id = h.peer_id
  left join removed r on r.run_id = c.run_id and r.node_id = c.node_id and r.topic = c.topic and r.round = c.round
  where c.n_configurations = 1 and c.is_valid and c.label is not null and a.run_id is null and r.run_id is null
    and (c.before_node is null or c.after_node is null or (h.peer_id not in (c.before_node, c.after_node) and (
      case when c.before_key < c.own_key then h.peer_key > c.before_key and h.peer_key < c.own_key
        else h.peer_key > c.before_key or h.peer_key < c.own_key end
      or case when c.own_key < c.after_key then h.peer_key > c.own_key and h.peer_key < c.after_key
        else h.peer_key > c.own_key or h.peer_key < c.after_key end)))
)
select distinct c.run_id, c.round, c.node_id,
  concat('topic ', c.topic, ': it gets label ', c.label, ', and sends no RequestFor about its nearer neighbour ', n.name
  ) as detail
from near c
join node n on n.run_id = c.run_id and n.node_id = c.peer_id
left join ring_message m on m.run_id = c.run_id and m.src = c.node_id and m.topic = c.topic and m.kind = 'RequestFor'
  and m.named_node = c.peer_id and m.sent_round = c.round
where m.run_id is null
