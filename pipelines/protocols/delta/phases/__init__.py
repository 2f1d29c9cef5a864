"""The phases of a round: each calls steps in order, and declares the relations that it reads and writes."""
