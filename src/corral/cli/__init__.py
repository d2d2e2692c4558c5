"""The command line: a module is imported when one of its commands is called."""
