"""Classic groups, whose leader assigns: state, rebalances and requests. Pure: events in, effects out."""
