-- audit, is_unconditional: a node sends a publication once over all links except the one over which it arrived
with degree as (
  select run_id, src as node_id, count(1) as n_links from link group by run_id, src
), sent as (
  select run_id, src as node_id, source, source_seq, count(distinct dst) as n_sent
  from sent_message
  where kind = 'PUB'
  group by run_id, src, source, source_seq
)
select s.run_id, s.round, s.node_id, s.source, s.source_seq,
  concat('sent over ', coalesce(t.n_sent, 0), ' of ', d.n_links, ' links; the copy came over ',
    case when s.node_id = s.source then 0 else 1 end) as detail
from state_seen s
join degree d on d.run_id = s.run_id and d.node_id = s.node_id
left join sent t on t.run_id = s.run_id and t.node_id = s.node_id
  and t.source = s.source and t.source_seq = s.source_seq
where coalesce(t.n_sent, 0) <> d.n_links - case when s.node_id = s.source then 0 else 1 end
