"""The δ protocol under failures, one node at a time: an oracle that shares no code with the engine.

``network.play(schedule, detector)`` plays a ``schedule.Schedule`` and returns the ``Network`` with what happened:
``deliveries`` (subscriber, source, seq, round), ``confirmations`` (round by call), ``statuses`` (round, node, status),
``count`` (events), and the nodes with their final ``view.marks`` (TOP_N) and ``entries`` (SUBS_SET_N).
``checker.Checker(network).violations()`` returns what is wrong with it; ``generator.random_run(seed, detector)`` plays
a random schedule with at most δ nodes not OPERATIONAL at once, and leaves it in ``network.schedule`` for another
program.

What the report leaves open and random schedules settled, beside the rules of the protocol's page:

- A detector that keeps only the most recent identifier can judge a first copy a duplicate. The proof of Lemma 2 takes
  it that the receiver has been up since the message was first sent, and that older information never comes behind
  newer. Neither holds at a node that synchronises: PAR_SUB has low priority, newer Guided messages overtake it, and it
  is lost with its sender. Its content then comes as older messages from the next partner. A synchronising node
  therefore takes the routing information of a J, SUB or UNSUB that it refuses (``forwarding.refuse``).
- A resend to a recovered node names what lies behind it and is confirmed already (``Recipient.is_reopened``): sent
  there once more, the message would be an old one to nodes that had recovered in between.
- New recipients are added to messages under way when they come into view (``forwarding.extend``), and everything is
  then sent in ProcessingList order; adding them later would put old messages behind new ones.
- Who joined behind a node M while R was down is unknown to R, and while M is down nobody else may know: a synchronising
  node that hears of M's failure reads the topology that M has stored, as the report's repository allows.
- What is left are publications that need not come: their subscription was not confirmed when they were issued
  (accepting one would break the order of its source), or a failed node upstream had them confirmed for all behind.
"""
