"""Tests of corral.terminals that need no process."""
