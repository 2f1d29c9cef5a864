"""Protocol repository as a plain program, written from the paper and the rules, which computes the outcome of a run.

`plain.expected(run)` plays the publications one after another. Without faults, the shortest paths determine the round
in which a message is stored, and the round in which each subscriber delivers it (`Outcome.rounds`). If faults end and
publishers do not crash, the messages that each repository stores and each subscriber delivers, and their order for each
publisher, are those of the run without faults; only the rounds are later. The module does not import the program with
which it is compared.

`judge.judged(history)` checks a played run of any schedule against the paper. It reads calls, crashes, deliveries,
statuses and messages, but no state of a node.
"""
