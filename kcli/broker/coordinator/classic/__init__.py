"""Classic groups, whose leader assigns: state, rebalances and requests. Pure: it never does I/O."""
