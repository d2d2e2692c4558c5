"""The server as a person runs it: real processes on loopback, real terminals, real agents."""
