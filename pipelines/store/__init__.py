"""Stores: the Delta tables of an experiment, their location, the ledger of complete rounds, and the writer's lock."""
