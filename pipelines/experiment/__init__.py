"""An experiment: from a scenario to the rows that its runs are given, and the manifest of it."""
