"""Measuring, for as long as somebody asks, how long requests to the nodes of a process take."""
