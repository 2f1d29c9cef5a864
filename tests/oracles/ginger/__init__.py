"""Protocol ginger, one message at a time over links that keep order: an oracle that shares no code with the engine.

``network.RandomNetwork(setup, draw, n_crashes)`` lets any link's oldest message come next, and crashes brokers;
``network.TimedNetwork`` goes by rounds as the engine does. ``checker.violations(network)`` returns what is wrong when
nothing is left to do; ``generator.random_setup(draw)`` draws trees, clients and messages.

What random schedules with crashes settled, beside the rules of the protocol's page:

- A client that comes to another broker tells it, too, which brokers it has seen fail: the parent of its old one may
  have failed before it could say so, and a total-order message waits for a broker that nobody knows to be dead.
- Only an elected root takes in topics that it does not have. A root that was there from the start has a reason not to
  have them: the topic's root is below it, and would be a second one.
- A broker that sees nobody above itself elects with its siblings, again when a winner fails, and is the root when
  nobody is left. ``bound.is_beyond(setup, dead)`` says from setup and crashes alone when somebody may stay isolated
  (``Seeker.is_isolated``).
"""
