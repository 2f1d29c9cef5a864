"""The node program of the self-stabilizing supervised skip ring (Feldmann, Kolb, Scheideler, Strothmann).

`program` declares a node's state and its handlers. The supervisor's actions are in `supervisor` (section 3.1), a
subscriber's in `subscriber` (section 3.2), publications in `trie` (section 4), labels in `labels` (section 2.1).
`start` sets the initial state of a run. `legitimate`, `replay` and `topic_replay` check runs against `definition`.
"""
