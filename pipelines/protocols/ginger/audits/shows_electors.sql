-- audit, is_dated: the first view of a new root shows its electors as children
-- Rule G20. An elector is a sibling that has voted and has not crashed. If the view did not show the electors, the
-- root's other children would not find them when the root fails before they have connected.
select e.run_id, e.end_round as round, e.node_id,
  concat('the view for node ', v.dst, ' does not show elector ', e.sibling) as detail
from election e
join sent_message v on v.run_id = e.run_id and v.src = e.node_id and v.kind = 'TreeViewUpdate'
  and v.sent_round = e.end_round and v.message_id >= e.end_id and v.dst <> e.sibling
left join node_recovery c on c.run_id = e.run_id and c.node_id = e.sibling and c.crash_round <= e.end_round
where e.winner = e.node_id and e.sibling_degree is not null and not e.is_out and c.run_id is null
  and not contains(v.body, concat('"broker":', e.sibling, ',"n_up":1,"n_down":0,'))
