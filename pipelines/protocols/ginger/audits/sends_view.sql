-- audit, is_dated: a broker sends its view to a new child or client in the round of the acceptance
-- Section 4.2.2, Alg. 2, rule G12. Without the view an orphan finds no other parent.
select p.run_id, p.sent_round as round, p.src as node_id,
  concat('accepts node ', p.dst, ' and does not send its view') as detail
from sent_message p
left join sent_message v on v.run_id = p.run_id and v.src = p.src and v.dst = p.dst and v.sent_round = p.sent_round
  and v.kind = 'TreeViewUpdate'
where p.kind = 'ParentResponse' and get_json_object(p.body, '$.answer') = 'accepted' and v.run_id is null
