-- Which edges did nodes have, in which rounds, and what removed a wrong edge?
-- One row per run, node, topic, side, held node, believed label and period (protocol skipring). In a converged run, an
-- edge that does not exist at the end was wrong from its start, or became wrong when a node joined, left or crashed.
-- :handled messages about the topic that the node handled in until_round, in order, with their senders; empty: not a
--   message, but the node's Timeout, an unsubscription or a crash removed the edge; null: the edge was not removed
-- :is_last whether the edge exists at the end
-- :* held_edge
with told as (
  select m.run_id, m.dst as node_id, get_json_object(m.body, '$.topic') as topic, m.due_round as round,
    transform(
      array_sort(collect_list(struct(m.message_id, concat(m.kind, ' from ', n.name) as text))), item -> item.text
    ) as messages
  from sent_message m
  join node n on n.run_id = m.run_id and n.node_id = m.src
  where m.kind in ('Introduce', 'IntroduceShortcut', 'SetData', 'Remove') and m.fate = 'delivered'
  group by m.run_id, m.dst, get_json_object(m.body, '$.topic'), m.due_round
), ended as (
  select distinct run_id, node_id, topic, side, held_node_id, believed_label from held_edge where until_round is null
)
select s.run_id, s.node_id, s.name, s.topic, s.side, s.held_node_id, s.held_name, s.believed_label, s.round,
  s.until_round, case when s.until_round is not null then coalesce(t.messages, array()) end as handled,
  e.node_id is not null as is_last
from held_edge s
left join told t on t.run_id = s.run_id and t.node_id = s.node_id and t.topic = s.topic and t.round = s.until_round
left join ended e on e.run_id = s.run_id and e.node_id = s.node_id and e.topic = s.topic and e.side = s.side
  and e.held_node_id = s.held_node_id and e.believed_label = s.believed_label
