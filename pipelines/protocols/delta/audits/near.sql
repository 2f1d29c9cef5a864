-- The nodes near a subscription: those within δ+1 hops of the subscriber.
select p.run_id, p.node_id, s.subscription_id
from judged_path p
join due_subscription s on s.run_id = p.run_id and s.subscriber = p.target
