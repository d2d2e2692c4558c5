"""Tests of what each provider reads, against trees that the real CLIs wrote."""
