"""Protocol ``ginger`` as a node program (Matos, "Ginger", called the thesis): a network plays `program.Ginger`.

A node is a `broker.Broker` or a `client.Client`. Each consists of classes, called sections, that implement sections of
the thesis. `node.State` declares the tables of a node, `messages` the messages. A section calls the sections that it
imports directly, and all other sections through `node.Role`.
"""
