"""Pure functions from facts to answers: no clock, no disk, no process table."""
