"""The round engine: every run of one protocol goes through the same jobs, round after round."""
