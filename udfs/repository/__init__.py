"""The node program of protocol ``repository``: reliable delivery through repositories.

`program` assigns each event to the module of the node's role. Brokers relay events (`routes`). Clients choose a
steering repository (`steering`), publish (`publisher`) and subscribe (`subscriber`). Repositories store messages and
notify subscribers (`storage`), number messages (`slots`), answer subscribers (`syncs`) and check authorisations
(`registrations`). Within their bundle they gossip (`gossip`), recover (`recovery`), join and leave (`membership`). All
handlers take an `at.At`: one topic at one node in one round. `topics` sets the initial state.

Terms of the paper and of the rules in the README:

- bundle: the repositories that serve a topic; they are its members;
- steering repository: the member that a client has designated; the number of a designation is the round of its start;
- incarnation: the life of a publisher from its start, or from a recovery, to the next crash;
- catenation: a message's incarnation, and its number n within the incarnation;
- slot: a position in a repository's list of messages; it has a stored message, or is reserved for a missing one;
- sequence number: the number of a slot; each repository numbers its slots itself;
- frontier: the last sequence number before the first reserved slot; filled prefix: the messages of an incarnation up to
  the frontier;
- stable: every member has stored the message;
- void: a number whose message no repository waits for any more;
- designation: the choice of a steering repository by a client, in its role as publisher or as subscriber;
- position: the progress of a subscriber, as a sequence number of its steering repository; ``prev`` of a message: the
  number of the previous message for the same subscriber;
- mark: the last message of an incarnation that a subscriber has delivered;
- repository-table: the sequence numbers of each message at this repository and at other repositories;
- heard: a member from which an event arrived in the last T_assist rounds;
- discovery: an event that brokers forward to all repositories, because the sender knows no live member;
- cut: a message number for each incarnation; a new subscription gets only messages after its cut, and a deregistered
  client gets only messages up to its cut;
- sync: a sequence number up to which a subscriber has acknowledged all its messages;
- orphan: a message of a closed incarnation that is stored without a slot, because an earlier message is missing;
- action: a registration, a deregistration or a change of subscriptions;
- T_p, T_a, T_w, T_n, T_d, T_f, T_g, T_idle, T_fail, T_assist, T_void and k: timers and a limit, set by the scenario
  (`RepositorySettings`).
"""
