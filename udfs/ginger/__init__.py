"""What a broker or a client of protocol ``ginger`` does with the messages of a round, one by one, in their order.

`nodes.handle_nodes` is the Arrow function: one row a node, its state and its inbox as a sorted list of items; it
returns the items of the next state and of the outbox. `broker` and `client` are the nodes, `queue` is the
blocked-keys pass.
"""
