"""`kcli consumer-groups`: its verbs, the views that they print, and reading from a cluster or files."""
