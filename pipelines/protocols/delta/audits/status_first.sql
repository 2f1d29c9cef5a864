-- audit: a node sends STATUS before the multicast messages of a round
-- Rule R36, for messages to the same peer.
select s.run_id, s.sent_round as round, s.src as node_id,
  concat('STATUS to node ', s.dst, ' leaves behind ', min(m.kind)) as detail
from sent_message s
join sent_message m on m.run_id = s.run_id and m.src = s.src and m.dst = s.dst and m.sent_round = s.sent_round
  and m.message_id < s.message_id
where s.kind = 'STATUS' and m.kind in ('J', 'SUB', 'UNSUB', 'PUB', 'REJOIN')
group by s.run_id, s.sent_round, s.src, s.dst
