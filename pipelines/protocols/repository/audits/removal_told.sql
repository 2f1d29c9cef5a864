-- audit, is_dated: a repository that removes a dead member tells the other members of the removal
-- Section 4.10, rule P36. A row is the first Gossip-ACK after a call ``remove``, if it does not list the removed member
-- as departed. The repository had listed it as a member before the call.
with gossip as (
  select run_id, src as node_id, get_json_object(body, '$.topic') as topic, sent_round,
    from_json(get_json_object(body, '$.members'), 'array<bigint>') as members,
    from_json(get_json_object(body, '$.left'), 'array<bigint>') as gone
  from sent_message
  where kind = 'Gossip-ACK' and src = cast(get_json_object(body, '$.origin') as bigint)
), called as (
  select distinct c.run_id, c.node_id, c.peer, c.round, g.topic
  from issued_call c
  join gossip g on g.run_id = c.run_id and g.node_id = c.node_id and g.sent_round < c.round
    and array_contains(g.members, c.peer) and (c.topic is null or c.topic = g.topic)
  left join node_recovery d on d.run_id = c.run_id and d.node_id = c.node_id and d.crash_round <= c.round
    and (d.recovery_round is null or d.recovery_round >= c.round)
  where c.kind = 'remove' and d.run_id is null
)
select c.run_id, min(g.sent_round) as round, c.node_id,
  concat('is called in round ', c.round, ' to remove ', n.name, ', and does not tell that it has left') as detail
from called c
join gossip g on g.run_id = c.run_id and g.node_id = c.node_id and g.topic = c.topic and g.sent_round > c.round
join node n on n.run_id = c.run_id and n.node_id = c.peer
where not array_contains(g.gone, c.peer)
group by c.run_id, c.node_id, c.round, n.name
