"""The node program of the self-stabilizing supervised skip ring (Feldmann, Kolb, Scheideler, Strothmann).

`program` declares a node's state and its handlers. `supervisor` and `subscriber` contain the actions of the two roles
(sections 3.1 and 3.2), `trie` the tries of publications (section 4), and `labels` the labels (section 2.1). `start`
sets the initial state of a run. `legitimate` and `replay` check runs against the definition of SR(n).

The README of the protocol defines the terms of the paper and the rules. The modules also use these terms:

- explicit state: labels, edges, slots, subscriptions, and databases; messages in flight are implicit state;
- legitimate state: the explicit state is SR(n), and no message in flight contradicts it; closure: a legitimate state
  stays legitimate;
- start: the state of all nodes before round 0; stale message: a message from before round 0.
"""
