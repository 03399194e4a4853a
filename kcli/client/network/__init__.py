"""Connections to the brokers, and the metadata of the cluster; never the content of topics or groups."""
