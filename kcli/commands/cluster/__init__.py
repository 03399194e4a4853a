"""`kcli cluster`: the cluster's id, nodes and API versions."""
