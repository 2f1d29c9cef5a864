"""The store: its tables, which rounds are complete, and its folder."""
