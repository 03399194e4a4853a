"""What transactions need between nodes and on the partitions' side; it knows no requests of clients."""
