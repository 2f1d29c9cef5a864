"""Mutation testing: small changes of the program, all of which the tests should detect."""
