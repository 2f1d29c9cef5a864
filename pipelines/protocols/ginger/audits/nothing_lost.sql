-- audit: the publisher repeats each message that a node lacks and all buffers have discarded
-- If a node lacks a message that has left all buffers, the publisher repeats the message. A node with status
-- MESSAGE_LOST has given up a message.
select run_id, round, node_id, 'gave up messages that had left the buffers' as detail
from node_status
where status = 'MESSAGE_LOST'
