"""`kcli users`: who can log in by SCRAM."""
