-- audit: publications of one source that a node sends to a peer in a round keep their order
-- Rule R22. The numbers of publications give the order of their source.
with sent as (
  select run_id, src, dst, sent_round, source, source_seq, message_id,
    max(source_seq) over (partition by run_id, src, dst, sent_round, source order by message_id
      rows between unbounded preceding and 1 preceding) as before_seq
  from sent_message
  where kind = 'PUB' and src <> dst
)
select run_id, sent_round as round, src as node_id, source, source_seq,
  concat('leaves to node ', dst, ' behind publication ', before_seq) as detail
from sent
where source_seq < before_seq
