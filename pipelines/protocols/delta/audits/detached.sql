-- The messages by which a node learns that their sender is DETACHED (rule R24). The sender had never been VALID_JOINED
-- when it sent the message.
select m.run_id, m.dst as node_id, m.src as peer, m.due_round as round
from sent_message m
left join node_status s on s.run_id = m.run_id and s.node_id = m.src and s.status = 'VALID_JOINED'
  and s.round <= m.sent_round
where m.fate = 'delivered' and s.run_id is null
  and (m.kind = 'JOIN_REQUEST' or (m.kind = 'STATUS' and get_json_object(m.body, '$.status') = 'DETACHED'))
