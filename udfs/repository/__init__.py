"""The node program of protocol ``repository``: reliable delivery through repositories.

`program` assigns each event to the module of the node's role. Brokers relay events (`routes`). Clients choose a
steering repository (`steering`), publish (`publisher`) and subscribe (`subscriber`). Repositories store messages and
notify subscribers (`storage`), number messages (`slots`), answer subscribers (`syncs`) and check authorisations
(`registrations`). Within their bundle they gossip (`gossip`), recover (`recovery`), join and leave (`membership`). All
handlers take an `at.At`: one topic at one node in one round. `program` also sets the initial state.

Terms of the paper and of the rules in the README:

- bundle: the repositories that serve a topic. Each of them is a member of the bundle.
- designation: the choice of a steering repository by a client, in its role as publisher or as subscriber. The number of
  a designation is the round in which it starts.
- steering repository: the member that a client has designated.
- incarnation: the life of a publisher from its start, or from a recovery, to the next crash.
- catenation: the incarnation of a message's publisher, and the number n of the message within the incarnation.
- slot: an element of a repository's list of messages. It has a stored message, or is reserved for a missing message.
- sequence number: the index of a slot. Each repository assigns its own sequence numbers.
- frontier: the last sequence number before the first reserved slot.
- filled prefix: the messages of an incarnation up to the frontier.
- stable message: a message that every member has stored.
- void slot: a slot whose message no repository waits for.
- position: the sequence number, at the steering repository, up to which a subscriber has delivered its messages.
- ``prev`` of a message: the sequence number of the previous message for the same subscriber.
- mark: the last message of an incarnation that a subscriber has delivered.
- repository-table: the sequence numbers of each message at this repository and at other repositories.
- heard member: a member from which an event arrived in the last T_assist rounds.
- discovery: an event that brokers forward to all repositories, because its sender knows no live member.
- cut: a catenation number for each incarnation. A new subscription gets only messages after its cut. A deregistered
  client gets only messages up to its cut.
- sync: a sequence number up to which a subscriber has acknowledged all its messages.
- orphan: a message of a closed incarnation that is stored without a slot, because an earlier message is missing.
- action: a registration, a deregistration or a change of subscriptions.
- T_p, T_a, T_w, T_n, T_d, T_f, T_g, T_idle, T_fail, T_assist and T_void: timers. k: a limit of requests. The scenario
  sets their values (`RepositorySettings`).
"""
