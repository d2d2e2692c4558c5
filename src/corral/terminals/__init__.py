"""Terminals that outlive their viewers: a small holder process each, found and spoken to through a Unix socket."""
