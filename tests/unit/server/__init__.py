"""The parts of the server that need no process."""
