"""The broker: sockets, the data plane, the controller and the coordinators of the nodes in one process."""
