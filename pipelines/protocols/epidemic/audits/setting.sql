-- The settings that rules of messages name. A row is a run.
select run_id,
  cast(get_json_object(parameters, "$['protocol.gossip_rounds']") as bigint) as gossip_rounds,
  cast(get_json_object(parameters, "$['protocol.fanout']") as bigint) as fanout,
  cast(get_json_object(parameters, "$['protocol.lost_rounds']") as bigint) as lost_rounds,
  cast(get_json_object(parameters, "$['protocol.lost_buffer']") as bigint) as lost_buffer,
  get_json_object(parameters, "$['protocol.adaptive']") as adaptive,
  get_json_object(parameters, "$['protocol.gossip_on_detection']") as gossip_on_detection
from run
