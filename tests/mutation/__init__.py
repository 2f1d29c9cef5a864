"""Mutation testing: small changes of the program, of which the tests should find every one."""
