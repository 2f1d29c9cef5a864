"""The models of a scenario's parts."""
