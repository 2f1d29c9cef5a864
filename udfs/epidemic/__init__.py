"""Protocol ``epidemic`` as a node program, a module a section of the paper.

Costa, Migliavacca, Picco, Cugola: Introducing Reliability in Content-Based Publish-Subscribe through Epidemic
Algorithms, DEBS 2003. `program` names the phases of a round, and the tables that each reads and writes.
"""
