-- The rounds in which a dispatcher's clients subscribe to a pattern; until_round is the round of the unsubscription.
select distinct p.run_id, p.node_id, p.pattern_id, s.issued_round,
  coalesce(s.unsubscribed_round, 9223372036854775807) as until_round
from state_pattern p
join subscription s on s.run_id = p.run_id and s.subscription_id = p.subscription_id
