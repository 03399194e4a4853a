"""`kcli tls`: looks at certificates of files and listeners, and makes those of clients."""
