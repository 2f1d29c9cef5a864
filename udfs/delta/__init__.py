"""δ-fault-tolerant publish/subscribe (Kazemzadeh and Jacobsen, TR CSRG-570) as a node program.

Names of messages, sets and algorithms are the report's: a node is N, its failed peer M, a recovering node R, its
synchronisation point S. Rules R1 to R36 are those of the README of ``pipelines/protocols/delta``.
"""
