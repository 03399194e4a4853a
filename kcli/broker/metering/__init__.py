"""How long requests to the nodes of a process take; nothing is measured unless a client asks."""
