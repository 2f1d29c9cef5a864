-- audit: the database of a legitimate topic has its subscribers with the first labels
select run_id, round, node_id, detail
from broken_topic
where guarantee = 'database'
