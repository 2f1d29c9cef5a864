"""Protocol ``ginger`` as a node program, `program.Ginger`, after the thesis "Ginger" by Matos.

A node is a `broker.Broker` or a `client.Client`. Each consists of parts: classes that implement sections of the thesis.
Module `node` declares the tables of a node, and module `messages` its messages. A part calls the parts that its module
imports directly, and all other parts through `node.Role`.
"""
