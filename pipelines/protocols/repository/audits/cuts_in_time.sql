-- audit: the cut of a deregistration has no message that was published after all members knew the deregistration
-- Sections 3.3 and 3.8, rule P25. A member knows the deregistration when it sends the deregistration by gossip. The cut
-- contains the messages that a member had stored before.
with told as (
  select run_id, origin as node_id, topic, action.client as client, action.role as role, action.number as number,
    min(sent_round) as round
  from gossip_entry
  where src = origin and not action.is_registered
  group by run_id, origin, topic, action.client, action.role, action.number
), known as (
  select run_id, topic, client, role, number, max(round) as round
  from told
  group by run_id, topic, client, role, number
), ended as (
  select run_id, node_id, topic, client, role, number, explode(cut) as one from state_registration where not is_registered
)
select distinct e.run_id, p.issued_round as round, e.node_id, p.source, p.source_seq,
  concat('the cut of the deregistration of ', c.name, ' has it, and all members knew the deregistration in round ',
    k.round) as detail
from ended e
join known k on k.run_id = e.run_id and k.topic = e.topic and k.client = e.client and k.role = e.role
  and k.number = e.number
join node c on c.run_id = e.run_id and c.node_id = e.client
join stored_message s on s.run_id = e.run_id and s.topic = e.topic and s.source = e.one.publisher
  and s.incarnation = e.one.incarnation and s.n <= e.one.n
join publication p on p.run_id = s.run_id and p.source = s.source and p.source_seq = s.source_seq
where p.issued_round > k.round
