"""Asking a CLI to report which sessions it serves: hook program, installation, journals."""
