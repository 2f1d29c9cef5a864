-- audit, is_unconditional: a new left neighbour precedes its node by (r(label), id), and a new right one follows it
-- Section 2.2, rule K1. Labels compare by value r if zeros pad them to one length. A stale configuration can make a
-- node its own neighbour; the audit does not check this reference.
with sided as (
  select run_id, node_id, topic, round, label, 'left' as side, `left` as peer, before_left as before_peer
  from ring_state
  union all
  select run_id, node_id, topic, round, label, 'right' as side, `right` as peer, before_right as before_peer
  from ring_state
), changed as (
  select run_id, node_id, topic, round, side, label, peer.node as peer_id, peer.label as peer_label,
    concat(rpad(label, 64, '0'), lpad(cast(node_id as string), 12, '0')) as own_key,
    concat(rpad(peer.label, 64, '0'), lpad(cast(peer.node as string), 12, '0')) as peer_key
  from sided
  where round >= 0 and label is not null and peer.node <> node_id
    and not (peer.node <=> before_peer.node and peer.label <=> before_peer.label)
)
select c.run_id, c.round, c.node_id,
  concat('topic ', c.topic, ': it has label ', c.label, ', and its new ', c.side, ' neighbour is ', n.name,
    ' with label ', c.peer_label) as detail
from changed c
join node n on n.run_id = c.run_id and n.node_id = c.peer_id
where case when c.side = 'left' then c.peer_key >= c.own_key else c.peer_key <= c.own_key end
