"""Oracles: plain sequential programs of the protocols, with which tests compare the node programs and dataflows."""
