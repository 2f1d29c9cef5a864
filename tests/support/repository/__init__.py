"""Random schedules of protocol `repository`, faulty links, and a checker of the protocol's promises."""
