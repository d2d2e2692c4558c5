"""`corral demo`: the real command, with its server, terminals and agents, in a TMPDIR of the test's own."""
