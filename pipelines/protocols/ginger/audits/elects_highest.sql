-- audit, is_dated: siblings elect the highest residual degree, then the lowest id, of votes that name the same brokers
-- Alg. 7, rules G13 and G18. A row is the end of an election at a voter. The voter knew a better vote than the winner's
-- vote, possibly its own, or it lacked the vote of a sibling. A sibling that answers without a vote is out of the
-- election, and the voter may ask it (rule G19). There is one exception: the last sibling of a root may have waited
-- until its timer expired.
with judged as (
  select e.run_id, e.node_id, e.degree, e.round, e.end_round, e.winner, e.sibling, e.sibling_degree,
    case when e.winner = e.node_id then e.degree else w.sibling_degree end as winner_degree,
    r.protocol_timer_rounds as timer_rounds
  from election e
  join parameter r on r.run_id = e.run_id
  left join election w on w.run_id = e.run_id and w.node_id = e.node_id and w.end_id = e.end_id
    and w.sibling = e.winner
  where not e.is_out and (e.winner = e.node_id or not w.is_out)
)
select run_id, end_round as round, node_id,
  concat('elects node ', winner, ' without a vote of node ', sibling) as detail
from judged
where sibling_degree is null and (winner <> node_id or end_round < round + timer_rounds)
union all
select run_id, end_round as round, node_id,
  concat('elects node ', winner, ', and node ', sibling, ' has residual degree ', sibling_degree) as detail
from judged
where sibling <> winner
  and (sibling_degree > winner_degree or (sibling_degree = winner_degree and sibling < winner))
union all
select distinct run_id, end_round as round, node_id,
  concat('elects node ', winner, ', and has residual degree ', degree, ' itself')
  as detail
from judged
where winner <> node_id and (degree > winner_degree or (degree = winner_degree and node_id < winner))
