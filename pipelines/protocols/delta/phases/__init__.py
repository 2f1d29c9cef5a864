"""The phases of a round. Each phase calls steps in order, and declares the relations that it reads and writes."""
