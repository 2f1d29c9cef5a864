-- Messages in table gap wait until their publisher repeats them.
select run_id, node_id, source, source_seq, case when status = 'open'
    then 'the node lacks it: it has left the buffers, and the Repeat of its publisher has not arrived yet'
    else 'the node lacks it: it has left the buffers, and the Repeat of its publisher never arrived' end as reason
from state_gap
where guarantee = ''
