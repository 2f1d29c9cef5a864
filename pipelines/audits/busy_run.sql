-- The runs that ended with messages in flight, or undecided for the protocol (Protocol.undecided).
select run_id from in_flight_run
union
select run_id from undecided_run
