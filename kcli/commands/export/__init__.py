"""`kcli spark-export` and `kcli spark-import`: their options, what they print, and their progress.

The work itself is in `kcli.spark`, which modules here import only inside functions.
"""
