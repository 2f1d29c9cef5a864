"""Plain programs of the protocols, one node after the other: what the dataflow is compared with."""
