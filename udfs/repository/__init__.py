"""Reliable delivery through repositories: the nodes of protocol ``repository``, for the harness ``udfs.nodes``.

`program` has the node: its role decides which part handles an event. Brokers relay (`routes`). Clients choose a
steering repository (`steering`), publish (`publisher`), subscribe and deliver (`subscriber`); the owner of a topic
registers them (`membership`). Repositories take messages and notify subscribers (`storage`), number messages in slots
(`slots`), answer subscribers (`syncs`), check authorisations (`registrations`), and synchronise with their bundle
(`gossip`, `recovery`, `membership`). Each topic is a protocol of its own (`topics`); `at` is the part of a node for one
topic in one round.
"""
