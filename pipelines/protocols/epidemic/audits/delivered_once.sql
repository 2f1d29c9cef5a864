-- audit, is_unconditional: a subscriber gets each event at most once, and only matching ones, for any loss
select * from stray_delivery
