"""`python -m corral`: the same as the console script."""

from corral.cli.main import run

run()
