"""Protocol ``skipring`` as a plain program: it plays one node and one message at a time, without an engine.

``network.Network(setup, start)`` plays rounds. The state of a run is its nodes, ``in_flight``, and ``sent`` and
``delivered`` of the last round. Labels are strings of digits, values are fractions, SR(n) is computed by its
definition, and a trie is the set of its keys.

The program follows the actions and the rules K1 to K20 on the protocol's page. The page leaves the following open; both
programs do it in this way:

- In a phase, a node handles messages in the order of the round of sending, then of the sender, then of the sender's
  number. The delay of a message is drawn by its number among the messages of its sender in the round.
- All draws of a node depend on seed, id, round and purpose; for draws of a Timeout, the purpose contains the topic.
- An introduction of the node itself is ignored; Linearize of a neighbour in the list does nothing.
- All edges on the wrong side are deleted first; then left, right and ring are linearized, in this order.
- If a configuration has no predecessor or no successor, action (iii) asks for all neighbours.
- A predecessor that is not below the node is the other end. A successor that is not above the node is the other end if
  a predecessor is below it. This is the legitimate case; a stale configuration may name other nodes.
- Each edge counts its own silence, and a configuration that names a neighbour again does not reset the count.
- Slots are handled in the order of their labels, which is the order in which l generates them.
- Labels that are not an l(x) are ordered by length and digits (repair).
- If the hash of a leaf differs, no children can be compared. A request for missing publications is not answered.
- A publication of the node itself is delivered only if the node wants the topic. It is flooded over all existing edges.
"""
