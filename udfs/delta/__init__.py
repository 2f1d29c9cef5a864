"""δ-fault-tolerant publish/subscribe (Kazemzadeh and Jacobsen, TR CSRG-570) as a node program.

Messages, sets and algorithms have the names of the report. N is the node that acts, M a failed peer, R a recovering
node, and S a synchronisation point, which sends routing information to R. `pipelines/protocols/delta/README.md` lists
the rules R1 to R37.

Terms of the report:

- J: the message that announces a joining node; REJOIN: the message that announces a recovered node;
- PAR_TOP, PAR_SUB: the answers to a JOIN_REQUEST or SYN_REQUEST; PAR_TOP has links, and PAR_SUB has routing entries;
- CONF: the confirmation of a message by a node; a message is finished at a node when all its next hops have confirmed;
- Γ: the recipients of a message at a node; Out: the next hops on the paths to these recipients;
- TOP: a node's view, the links within δ+1 hops; a link has a mark while the join that creates it is unfinished;
- SUBS_SET: the routing entries of a node; the tombstone of an entry records its UNSUB;
- ProcessingList: the unconfirmed messages of a node; PrevOut: the unconfirmed messages of S that R must handle;
- MsgId_N: the id of a message at node N; a visited list contains the ids of a message at the nodes that it visited;
- Guided: a message to a RECOVERING node; the message carries the paths to its recipients (g.to);
- responsible node: the first node on a path from N that N does not suspect to have failed;
- Synch_R: the synchronisation points of R;
- status: DETACHED, ATTACHED and CONFIRMED during a join, VALID_JOINED after it; RECOVERING and REJOINING (OPERATIONAL*
  in the report) during a recovery; OPERATIONAL. A node is blocked unless it is both VALID_JOINED and OPERATIONAL.
"""
