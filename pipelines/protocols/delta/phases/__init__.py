"""The phases of a round: each puts steps in order, and declares the relations that it reads and writes."""
