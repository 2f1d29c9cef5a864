-- audit, is_dated: a recovered broker without a parent answers each ParentRequest with `back`
-- Rule G22: the answer `back` states that the broker has no position in the tree. After any other answer the requester
-- would repeat its request without end.
select w.run_id, p.sent_round as round, w.node_id,
  concat('has no parent since its recovery in round ', w.from_round, ', and answers ',
    get_json_object(p.body, '$.answer'), ' to node ', p.dst) as detail
from newcomer w
join sent_message p on p.run_id = w.run_id and p.src = w.node_id and p.kind = 'ParentResponse'
  and p.sent_round >= w.from_round and (w.end_round is null or p.sent_round < w.end_round)
where get_json_object(p.body, '$.answer') <> 'back'
