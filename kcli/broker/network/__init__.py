"""Sockets, connections and the dispatch of requests. It knows no topic, no partition and no group."""
