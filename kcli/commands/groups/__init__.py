"""`kcli consumer-groups`: its verbs, and what they read, decide and print."""
