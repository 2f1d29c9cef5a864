"""Protocol repository as a plain program, written from the paper and the rules: what a run is to come to.

`plain.expected(run)` goes through the publications one after the other. Without faults the shortest ways decide when a
message is stored, and when each subscriber delivers it (`Outcome.rounds`); with faults that end, and publishers that do
not crash, who stores and who delivers what is the same, in the same order for each publisher, only later. It imports
nothing of what is compared with it.

`judge.judged(history)` holds a played run, under any schedule, against the paper: it knows calls, crashes, deliveries,
statuses and messages, and nothing of a node's state.
"""
