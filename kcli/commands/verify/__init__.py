"""`kcli verify-index`: what its options ask for, the plan of a verification, how findings are printed.

The checks themselves, and the processes that run them, are `kcli.forensics.verification`.
"""
