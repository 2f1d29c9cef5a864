"""Random schedules of protocol `repository`, faulty links, and a checker of what it promises."""
