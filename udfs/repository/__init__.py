"""The node program of protocol ``repository``: reliable delivery through repositories.

`program` assigns each event to the module of the node's role. Brokers relay events (`routes`). Clients choose a
steering repository (`steering`), publish (`publisher`) and subscribe (`subscriber`). Repositories store messages and
notify subscribers (`storage`), number messages (`slots`), answer subscribers (`syncs`) and check authorisations
(`registrations`). Within their bundle they gossip (`gossip`), recover (`recovery`), join and leave (`membership`). All
handlers take an `at.At`: one topic at one node in one round. `topics` sets the initial state.
"""
