"""One package per agent CLI. Built-ins are found by listing this folder; nothing else names them."""
