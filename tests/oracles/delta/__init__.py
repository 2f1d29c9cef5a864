"""The δ protocol under failures, one node at a time: an oracle that shares no code with the engine.

``network.play(schedule, detector)`` plays a ``schedule.Schedule`` and returns the ``Network``, which contains
``deliveries`` (subscriber, source, seq, round), ``confirmations`` (round by call), ``statuses`` (round, node, status),
``count`` (numbers of events), and the nodes with their final ``view.marks`` (TOP_N) and ``entries`` (SUBS_SET_N).
``checker.Checker(network).violations()`` returns the violations of the run. ``generator.random_run(seed, detector)``
plays a random schedule in which at most δ nodes are not OPERATIONAL at a time; ``network.schedule`` contains it, so
that another program can play it.

Random schedules settled the following questions that the report leaves open, in addition to the rules on the protocol's
page:

- A detector that stores only the most recent identifier can judge a first copy a duplicate. The proof of Lemma 2
  assumes that the receiver has been up since the message was first sent, and that older information never arrives after
  newer information. Neither assumption holds at a synchronising node: PAR_SUB has low priority, newer Guided messages
  overtake it, and it is lost if its sender fails. Its content then arrives as older messages from the next partner.
  Therefore a synchronising node takes the routing information of a J, SUB or UNSUB that it rejects
  (``forwarding.refuse``).
- A resend to a recovered node lists the nodes behind it that have already confirmed (``Recipient.is_reopened``). If the
  message were sent to them again, it would be an old message for nodes that had recovered in the meantime.
- New recipients are added to unconfirmed messages when they come into view (``forwarding.extend``), and all messages
  are then sent in ProcessingList order. If recipients were added later, old messages would follow new ones.
- A node R does not know the nodes that joined behind a node M while R was down, and while M is down, no other node may
  know them. Therefore a synchronising node that receives a report of M's failure reads the topology that M has stored,
  as the report's repository allows.
- Two types of publications need not be delivered: publications whose subscription was not confirmed when they were
  issued (accepting one would break the order of its source), and publications that a failed upstream node had confirmed
  for all nodes behind it.
"""
