-- The runs that have messages in flight at the end, or that the protocol declares undecided (Protocol.undecided).
select run_id from in_flight_run
union
select run_id from undecided_run
