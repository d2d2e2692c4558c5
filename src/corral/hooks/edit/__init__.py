"""Editing the configuration of somebody else: our entries in and out, every other byte kept."""
