"""Protocol ``epidemic`` as a node program: content-based publish/subscribe with epidemic recovery of lost events.

The paper is Costa, Migliavacca, Picco, Cugola: Introducing Reliability in Content-Based Publish-Subscribe through
Epidemic Algorithms, DEBS 2003. Each node is a dispatcher. Module `program` lists the phases in which a dispatcher
handles a round.

Terms of the paper:

- event: a publication; pattern: a predicate of subscriptions; local pattern: a pattern of the dispatcher's own clients;
- identifier: the source of an event, and a tag for each pattern that the event matches;
- tag: a pattern and the source's counter for the pattern; a gap in the counters reveals a lost event;
- digest: the events that a gossip message lists: cached events (push), or lost events (pull);
- gossip round: the periodic event at which a dispatcher sends its digests; gossip interval T: the number of rounds
  between two gossip rounds;
- subscriber-based pull: a digest goes towards subscribers of a pattern; publisher-based pull: a digest goes back to the
  source of the lost events;
- Cache: the events that a dispatcher stores to answer gossip; LostBuffer: the lost events that a dispatcher requests;
- Routes: for each source, the path over which its newest event arrived; publisher-based pull follows this path back;
- unicast: direct messages between two dispatchers (REQUEST, REPLY), which the tree does not carry.
"""
