"""The actions of `kcli consumer-groups`, and what they read, decide and print."""
