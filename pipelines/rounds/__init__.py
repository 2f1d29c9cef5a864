"""The round engine, which executes the runs of a protocol round by round and commits their history."""
