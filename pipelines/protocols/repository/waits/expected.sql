-- Messages that a subscriber knows to be stored and has not delivered.
select e.run_id, e.node_id, e.source, e.source_seq, case
    when b.source is null then concat('it is stored as number ', e.seq, ', and S2R-NAK requests it')
    else concat('it has arrived, but number ', e.prev, ' must be delivered before it') end as reason
from state_expected e
left join state_buffered b on b.run_id = e.run_id and b.node_id = e.node_id and b.topic = e.topic
  and b.source = e.source and b.source_seq = e.source_seq
where e.source >= 0
