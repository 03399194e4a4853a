"""`kcli transactions`: the transactional ids of a cluster, and transactions that hang."""
