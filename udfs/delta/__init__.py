"""δ-fault-tolerant publish/subscribe (Kazemzadeh and Jacobsen, TR CSRG-570) as a node program.

Messages, sets and algorithms have the names of the report. N is the node that acts, M a failed peer, R a recovering
node, and S a synchronisation point, which sends routing information to R. `pipelines/protocols/delta/README.md` lists
the rules R1 to R37.
"""
