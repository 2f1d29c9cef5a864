-- A row is a run with its nodes, links, crashes and settings: the input of `gossipsub_beyond`.
with nodes as (
  select run_id, array_sort(collect_list(node_id)) as nodes from node group by run_id
), links as (
  select run_id, array_sort(collect_list(struct(src, dst))) as links, max(latency_rounds) as latency_rounds
  from link
  group by run_id
), crashes as (
  select run_id,
    array_sort(collect_list(struct(crash_round as round, node_id, recovery_round is null as is_final))) as crashes
  from node_recovery
  group by run_id
), slow as (
  select run_id, min(round) as slow_round from fault_event where kind in ('pause', 'delay') group by run_id
), ended as (
  select run_id, min(unsubscribed_round) as left_round from subscription group by run_id
)
select r.run_id, n.nodes, l.links, coalesce(l.latency_rounds, 0) as latency_rounds, c.crashes, s.slow_round,
  e.left_round, r.protocol_relay as relay,
  r.protocol_d_lo as d_lo,
  r.protocol_d_hi as d_hi,
  r.protocol_d_lazy as d_lazy,
  r.protocol_history_length as history_length,
  r.protocol_heartbeat_rounds as heartbeat_rounds
from parameter r
join nodes n on n.run_id = r.run_id
left join links l on l.run_id = r.run_id
left join crashes c on c.run_id = r.run_id
left join slow s on s.run_id = r.run_id
left join ended e on e.run_id = r.run_id
