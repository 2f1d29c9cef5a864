"""The round engine: plays the runs of a protocol, one round or many rounds in a job, and commits their history."""
