-- Which edges did nodes have, and in which rounds?
-- One row per run, node, topic, side, held node, believed label and period (protocol skipring). Reports draw these
-- edges.
-- :node_id node at which the edge starts
-- :side variable of the node that has the edge: left, right, ring or shortcut
-- :is_shortcut whether side is shortcut; all other edges form the ring
-- :held_node_id held node: the node at which the edge ends
-- :held_name name of the held node
-- :believed_label label of the held node, as node_id knows it
-- :round first round of the edge; -1: the edge exists in the initial state
-- :until_round first round without the edge; null: the edge exists at the end
with state as (
  select run_id, node_id, topic, round,
    lead(round) over (partition by run_id, node_id, topic order by round) as until_round,
    concat(
      array(
        named_struct('side', 'left', 'held', `left`.node, 'believed', `left`.label),
        named_struct('side', 'right', 'held', `right`.node, 'believed', `right`.label),
        named_struct('side', 'ring', 'held', ring.node, 'believed', ring.label)
      ),
      transform(slots, slot -> named_struct('side', 'shortcut', 'held', slot.node, 'believed', slot.label))
    ) as edges
  from state_configuration_change
), one as (
  select run_id, node_id, topic, round, until_round, explode(edges) as edge from state
), followed as (
  select run_id, node_id, topic, edge.side as side, edge.held as held_node_id, edge.believed as believed_label, round,
    until_round,
    lag(until_round) over (
      partition by run_id, node_id, topic, edge.side, edge.held, edge.believed order by round
    ) as before_round
  from one
  where edge.held is not null
), numbered as (
  select *, sum(case when before_round = round then 0 else 1 end) over (
      partition by run_id, node_id, topic, side, held_node_id, believed_label order by round
      rows between unbounded preceding and current row
    ) as spell
  from followed
), spells as (
  select run_id, node_id, topic, side, held_node_id, believed_label, min(round) as round,
    case when count_if(until_round is null) = 0 then max(until_round) end as until_round
  from numbered
  group by run_id, node_id, topic, side, held_node_id, believed_label, spell
)
select s.run_id, s.node_id, n.name, s.topic, s.side, s.side = 'shortcut' as is_shortcut, s.held_node_id,
  h.name as held_name, s.believed_label, s.round, s.until_round
from spells s
join node n on n.run_id = s.run_id and n.node_id = s.node_id
join node h on h.run_id = s.run_id and h.node_id = s.held_node_id
