-- Did each run last long enough after its last external event for all pending work to finish?
-- One row per run (protocol repository). If a link fault does not end, disturbed_round is last_round.
-- :last_round last round of the run's batch, because all runs of a batch have the same number of rounds
-- :disturbed_round round of the last call, fault, recovery or change of links
-- :needed_rounds upper bound of the rounds until all pending work is finished: the durations of all timers, latencies
--   of paths, and, in a run with a fault or a join, the fetches of all publications
-- :ways_rounds upper bound of the rounds from the storage of a message to its delivery, if there is no fault: the
--   latencies of three paths, and the disk operations of repositories
-- :is_settled whether at least needed_rounds followed disturbed_round
with ended as (
  select r.run_id, max(c.last_round) as last_round
  from run r
  join round_commit c on r.run_id between c.first_run and c.last_run
  where r.protocol = 'repository'
  group by r.run_id
), fault as (
  select run_id, max(round) as round,
    sum(case when kind in ('crash', 'recovery', 'link', 'unlink') then 0 when endswith(kind, '_end') then -1 else 1 end) as n_open
  from fault_event
  group by run_id
), published as (
  select run_id, max(issued_round) as round, count(1) as n_publications from publication group by run_id
), subscribed as (
  select run_id, max(greatest(issued_round, coalesce(unsubscribed_round, 0))) as round from subscription group by run_id
), called as (
  select run_id, max(round) as round, count_if(kind = 'join') as n_joins from issued_call group by run_id
), way as (
  select l.run_id, max(l.latency_rounds) * (1 + max(b.n_brokers)) as rounds
  from link l
  join (select run_id, count_if(role = 'broker') as n_brokers from node group by run_id) b on b.run_id = l.run_id
  group by l.run_id
), setting as (
  select run_id,
    (4 + cast(given['protocol.tries'] as bigint))
      * cast(given['protocol.publisher_rounds'] as bigint)
    + cast(given['protocol.failure_rounds'] as bigint)
    + cast(given['protocol.acknowledge_rounds'] as bigint)
    + cast(given['protocol.wait_rounds'] as bigint)
    + cast(given['protocol.nak_rounds'] as bigint)
    + 2 * cast(given['protocol.rectify_rounds'] as bigint)
    + cast(given['protocol.idle_rounds'] as bigint)
    + cast(given['protocol.assist_rounds'] as bigint)
    + 2 * cast(given['protocol.gossip_rounds'] as bigint)
    + 2 * cast(given['protocol.fetch_rounds'] as bigint)
    + cast(given['protocol.void_rounds'] as bigint)
    + cast(given['protocol.reroute_rounds'] as bigint) as timer_rounds,
    cast(given['protocol.store_rounds'] as bigint)
    + cast(given['protocol.retrieve_rounds'] as bigint) as work_rounds
  from (select run_id, from_json(parameters, 'map<string,string>') as given from run) run
), timed as (
  select e.run_id, e.last_round,
    case when coalesce(f.n_open, 0) > 0 then e.last_round
      else least(e.last_round, greatest(0, coalesce(f.round, 0), coalesce(p.round, 0), coalesce(s.round, 0), coalesce(c.round, 0)))
    end as disturbed_round,
    t.timer_rounds + 10 * (w.rounds + t.work_rounds)
      + case when f.run_id is not null or c.n_joins > 0
          then coalesce(p.n_publications, 0) * (2 * w.rounds + t.work_rounds) else 0 end as needed_rounds,
    3 * w.rounds + 2 * t.work_rounds as ways_rounds
  from ended e
  join setting t on t.run_id = e.run_id
  join way w on w.run_id = e.run_id
  left join fault f on f.run_id = e.run_id
  left join published p on p.run_id = e.run_id
  left join subscribed s on s.run_id = e.run_id
  left join called c on c.run_id = e.run_id
)
select run_id, last_round, disturbed_round, needed_rounds, ways_rounds, last_round - disturbed_round >= needed_rounds as is_settled
from timed
