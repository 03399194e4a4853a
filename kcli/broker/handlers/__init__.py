"""The handlers of all APIs, a module per noun: `x` handles API X, `failed_x` makes its error response."""
