"""The node program of the self-stabilizing supervised skip ring (Feldmann, Kolb, Scheideler, Strothmann).

`program` declares a node's state and its handlers. `supervisor` and `subscriber` contain the actions of the two roles
(sections 3.1 and 3.2), `trie` the tries of publications (section 4), and `labels` the labels (section 2.1). `start`
sets the initial state of a run. `legitimate` and `replay` check runs against the definition of SR(n).

Terms of the paper and of the rules in the README:

- topic ring, SR(n): the skip ring of the n subscribers of a topic; it consists of a sorted list of the nodes, the
  closing edge between the ends of the list (``ring``), and shortcuts;
- label: the position of a subscriber in the ring; the list is sorted by the values of labels;
- database: the tuples (label, subscriber) that the supervisor of a topic stores;
- configuration: the label of a subscriber, and its predecessor and successor in the database;
- slot: the label of a shortcut of a node, and the subscriber with this label, if the node knows it. The labels of the
  node and of its ring neighbours determine the labels of its slots;
- BuildSR: the protocol that builds the skip ring; BuildRing: the part of BuildSR that sorts the list (Linearize,
  Introduce);
- Timeout: the periodic event of a node, once per interval; actions (i) to (iv): the actions of a subscriber at Timeout;
- explicit state: labels, edges, slots, subscriptions, and databases; messages in flight are implicit state;
- legitimate state: the explicit state is SR(n), and no message in flight contradicts it; closure: a legitimate state
  stays legitimate;
- start: the state of all nodes before round 0; stale message: a message from before round 0.
"""
