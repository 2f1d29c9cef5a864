-- Messages in table gap wait until their publisher repeats them.
select run_id, node_id, source, source_seq, case when status = 'open'
    then 'the node lacks it: it has left the buffers, and its publisher has not repeated it yet'
    else 'the node lacks it: it has left the buffers, and its publisher was never reached' end as reason
from state_gap
where guarantee = ''
