"""Protocol ``epidemic`` as a node program: content-based publish/subscribe with epidemic recovery of lost events.

The paper is Costa, Migliavacca, Picco, Cugola: Introducing Reliability in Content-Based Publish-Subscribe through
Epidemic Algorithms, DEBS 2003. Each node is a dispatcher. The README of the protocol defines the terms.
"""
