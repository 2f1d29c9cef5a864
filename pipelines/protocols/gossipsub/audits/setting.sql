-- A row is a run with the settings that audits read.
select run_id,
  cast(get_json_object(parameters, "$['protocol.d']") as bigint) as d,
  cast(get_json_object(parameters, "$['protocol.d_lo']") as bigint) as d_lo,
  cast(get_json_object(parameters, "$['protocol.d_hi']") as bigint) as d_hi,
  cast(get_json_object(parameters, "$['protocol.d_out']") as bigint) as d_out,
  cast(get_json_object(parameters, "$['protocol.d_lazy']") as bigint) as d_lazy,
  cast(get_json_object(parameters, "$['protocol.heartbeat_rounds']") as bigint) as heartbeat_rounds,
  cast(get_json_object(parameters, "$['protocol.history_length']") as bigint) as history_length,
  cast(get_json_object(parameters, "$['protocol.seen_ttl']") as bigint) as seen_ttl,
  cast(get_json_object(parameters, "$['protocol.fanout_ttl']") as bigint) as fanout_ttl,
  get_json_object(parameters, "$['protocol.flood_publish']") as flood_publish,
  get_json_object(parameters, "$['protocol.relay']") as relay
from run
