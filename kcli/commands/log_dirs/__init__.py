"""`kcli log-dirs`: log directories of brokers and the moves between them."""
