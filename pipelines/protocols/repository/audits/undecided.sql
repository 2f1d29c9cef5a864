-- A row is a run that ended before all stored messages could be delivered (view settled_run).
select o.run_id, min(o.issued_round) as round,
  concat(count(1), ' deliveries are missing, and the run went on for ', min(s.last_round - s.disturbed_round),
    ' of ', min(s.needed_rounds), ' rounds since the last external event') as reason
from owed_message o
join settled_run s on s.run_id = o.run_id
where o.delivery_round is null and o.excuse is null and not s.is_settled
group by o.run_id
