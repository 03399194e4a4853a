"""`kcli produce`: reads lines and sends them as records."""
