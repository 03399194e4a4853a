"""The requests and responses, one module per API: declarations only."""
