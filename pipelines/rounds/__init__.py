"""The round engine: plays the runs of a protocol, many rounds or one round in a job, and commits their history."""
