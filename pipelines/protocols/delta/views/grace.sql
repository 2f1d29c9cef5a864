-- For how many rounds after the last crash or recovery may a node count as recovering?
-- One row per run. The grace period has 2(δ+1)(D + 2W + P) + 2T rounds. W is the largest latency of a path of δ+1
-- links, and T is the sum of all link latencies. D is the detection delay, at least W. P is the number of rounds in
-- which a node sends its whole routing information to a recovering node, at low priority. Without further faults a
-- recovering node bypasses at most δ nodes that are down; each bypass takes one detection delay. The node waits for at
-- most δ other recovering nodes, and for each of them for one request and one answer. Then the confirmation of its
-- REJOIN passes these nodes and crosses at most the whole tree.
-- :delta δ
-- :grace_rounds length of the grace period in rounds
-- :grace_ms grace_rounds in ms
with scale as (
  select run_id, max(latency_rounds) as most, div(sum(latency_rounds), 2) as whole, div(count(1), 2) as n_links
  from link
  group by run_id
), entry as (
  select run_id, count(1) as n_entries from subscription group by run_id
), setting as (
  select run_id, round_ms, cast(given['protocol.delta'] as bigint) as delta,
    cast(given['protocol.detection_rounds'] as bigint) as detection_rounds,
    cast(given['protocol.par_rows'] as bigint) as par_rows
  from (select run_id, round_ms, from_json(parameters, 'map<string,string>') as given from run) run
), counted as (
  select s.run_id, s.delta, s.round_ms,
    2 * (s.delta + 1) * (
      greatest(s.detection_rounds, (s.delta + 1) * c.most) + 2 * (s.delta + 1) * c.most
      + div(c.n_links + coalesce(e.n_entries, 0), s.par_rows)
    ) + 2 * c.whole as grace_rounds
  from setting s
  join scale c on c.run_id = s.run_id
  left join entry e on e.run_id = s.run_id
)
select run_id, delta, grace_rounds, grace_rounds * round_ms as grace_ms from counted
