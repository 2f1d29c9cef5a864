"""Protocol ``ginger`` as a node program: `program.Ginger` is what a network plays.

A node is a `broker.Broker` or a `client.Client`, made of the sections of the thesis: one module each, with the tables
that `state.State` declares and the messages of `messages`. Sections call those below them, and ask for anything else
through `role.Role`.
"""
