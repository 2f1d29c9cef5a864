-- The settings that several audits read: one row per run.
select run_id,
  cast(get_json_object(parameters, "$['protocol.gossip_rounds']") as bigint) as gossip_rounds,
  cast(get_json_object(parameters, "$['protocol.fanout']") as bigint) as fanout,
  cast(get_json_object(parameters, "$['protocol.lost_rounds']") as bigint) as lost_rounds,
  cast(get_json_object(parameters, "$['protocol.lost_buffer']") as bigint) as lost_buffer,
  get_json_object(parameters, "$['protocol.adaptive']") as adaptive,
  get_json_object(parameters, "$['protocol.broken_route']") as broken_route,
  get_json_object(parameters, "$['protocol.gossip_on_detection']") as gossip_on_detection
from run
