"""The handlers of all APIs, a module per noun: `x` handles API X.

Its error response comes from `failed_x` or, if there is none, from `error_responses`.
"""
