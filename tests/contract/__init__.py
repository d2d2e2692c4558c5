"""Contract tests: corral against the real agent CLIs, on real terminals, with a model server on loopback."""
