"""Protocol ``skipring`` as a plain program: one node, one message after the other, without an engine.

``network.Network(setup, start)`` plays rounds: its nodes, ``in_flight``, and ``sent`` and ``delivered`` of the last
round are what a run is. Labels are digits and values fractions, SR(n) is its definition, a trie is the set of its keys.

It follows the actions and the rules K1 to K20 of the protocol's page. What the page leaves open, and both programs do:

- A node handles the messages of a phase in the order of the rounds in which they were sent, of their senders, and in
  which the sender sent them. A delay is drawn by the place of a message among those of its sender's round.
- All draws of a node are by its seed, id, round and purpose; what a Timeout draws has its topic in the purpose.
- An introduction of the node itself says nothing; Linearize of a neighbour in the list does nothing.
- Of what is on the wrong side all goes first, then left, right and ring are linearized, in this order.
- If a configuration lacks its predecessor or successor, all neighbours are asked for by action (iii).
- A predecessor that is not below the node is the other end; a successor that is not above it is the other end if there
  is a predecessor below it. This is the legitimate case; a stale configuration may name others.
- Each edge counts its own silence, and a configuration that names a neighbour again does not reset it.
- Slots are gone through in the order of their labels, which is the order in which l generates them.
- Labels that are no l(x) are in the order of their lengths and digits (repair).
- A leaf whose hash differs has no children to compare. A request for publications that are not there has no answer.
- An own publication is delivered only where the topic is wanted. It is flooded over all edges that there are.
"""
