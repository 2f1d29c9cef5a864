"""What goes wrong in a run, and when: listed in the scenario, or drawn by hashes of the seed."""
