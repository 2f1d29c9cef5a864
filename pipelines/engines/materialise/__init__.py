"""How an engine keeps a round's relations: the one place where a plan is cut."""
