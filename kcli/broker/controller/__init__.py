"""The controller: the only writer of metadata. Its decisions are pure functions; `Controller`
commits them.
"""
