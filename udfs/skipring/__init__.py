"""The self-stabilizing supervised skip ring, as a node program (Feldmann, Kolb, Scheideler, Strothmann).

`program` has the state of a node and its handlers, `supervisor` and `subscriber` their actions (sections 3.1 and 3.2),
`trie` the publications (section 4), `labels` the topology (section 2.1), `start` the states in which runs begin,
`legitimate` the detector of legitimate states.
"""
