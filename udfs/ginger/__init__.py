"""Protocol ``ginger`` as a node program: `program.Ginger` is what a network plays.

A node is a `broker.Broker` or a `client.Client`, and consists of the sections of the thesis, a class each, with the
tables of `node.State` and the messages of `messages`. Sections call the sections below them directly, and all others
through `node.Role`.
"""
