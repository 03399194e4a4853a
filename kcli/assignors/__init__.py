"""Assignors: which member of a group reads which partition. Pure.

Those of the consumer protocol, which run in the member that leads the group, are listed in
`kcli.assignors.strategies`; those of KIP-848 run in the broker. Both work on `kcli.assignors.members`.
"""
