-- A row is a message of the ring, except messages about publications. Labels are strings of digits. named_node is the
-- introduced or removed node; in RequestFor it is the subscriber.
with parsed as (
  select run_id, message_id, kind, src, dst, sent_round, due_round, fate = 'delivered' as is_handled,
    from_json(body, 'topic string, node bigint, subscriber bigint, flag string, reason string,
      label struct<bits: int, numerator: bigint>, believed struct<bits: int, numerator: bigint>,
      predecessor struct<node: bigint, label: struct<bits: int, numerator: bigint>>,
      successor struct<node: bigint, label: struct<bits: int, numerator: bigint>>') as of
  from sent_message
  where kind in ('Subscribe', 'Unsubscribe', 'GetConfiguration', 'RequestFor', 'SetData', 'Remove', 'Introduce',
    'IntroduceShortcut', 'CheckTrie')
), named as (
  select run_id, message_id, kind, src, dst, sent_round, due_round, is_handled, of.topic as topic, of.flag as flag,
    of.reason as reason, coalesce(of.node, of.subscriber) as named_node,
    lpad(bin(of.label.numerator), of.label.bits, '0') as label,
    lpad(bin(of.believed.numerator), of.believed.bits, '0') as believed,
    of.predecessor.node as before_node,
    lpad(bin(of.predecessor.label.numerator), of.predecessor.label.bits, '0') as before_label,
    of.successor.node as after_node,
    lpad(bin(of.successor.label.numerator), of.successor.label.bits, '0') as after_label
  from parsed
)
select *, forall(array(label, believed, before_label, after_label), one ->
    one is null or (length(one) <= 62 and (one = '0' or endswith(one, '1')))) as is_valid
from named
