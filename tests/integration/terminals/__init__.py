"""Tests of real terminals: real PTYs, shells, floods and kills."""
