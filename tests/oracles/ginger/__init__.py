"""Protocol ginger, one message at a time over FIFO links: an oracle that shares no code with the engine.

``network.RandomNetwork(setup, draw, n_crashes)`` delivers the oldest message of a random link next, and crashes
brokers. ``network.TimedNetwork`` plays rounds like the engine. ``checker.violations(network)`` returns the violations
in the final state. ``generator.random_setup(draw)`` returns random trees, clients and messages.

Random schedules with crashes settled the following, in addition to the rules on the protocol's page:

- A client that connects to another broker reports the brokers that it has seen fail. The parent of its old broker may
  have failed before that broker could report the failure, and a total-order message would wait for the failed parent.
- Only an elected root accepts topics that it does not have. If a root from the start does not have a topic, the topic's
  root is below it, and the topic would have two roots.
- A broker that sees no node above itself takes part in an election with its siblings. It repeats the election if the
  winner fails, and is the root if no sibling is left. ``bound.is_beyond(setup, dead)`` computes from setup and crashes
  whether a node may remain isolated (``Seeker.is_isolated``).
"""
