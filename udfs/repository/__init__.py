"""Reliable delivery through repositories: the nodes of protocol ``repository``, for the harness ``udfs.nodes``.

`program` has the node: its role decides which part handles an event. Brokers relay (`routes`). Clients choose a
steering repository (`steering`), publish (`publisher`), subscribe (`subscribing`) and deliver (`subscriber`); the owner
of a topic registers them (`owners`). Repositories take messages (`storage`) into numbered slots (`slots`), notify
subscribers (`dissemination`, `syncs`), know who may do what (`registrations`), and keep in step with their bundle
(`gossip`, `facts`, `fetching`, `recovery`, `membership`). `best_effort` is the baseline. Each topic is a protocol
of its own (`topics`): `at` is what a part sees of a node, one topic and one round.
"""
