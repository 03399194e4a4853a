"""Verification: whether the files of a partition agree with each other, and with the log directory's.

`partition_verifier` begins with a replica directory, `segment_verifier` reads the log of each segment once
and shows every batch (`log_items`, `sound_run`) to a check of each file beside it: `offset_index`,
`time_index`, `transaction_index`, whose bytes are `index_bytes`, `leader_epochs`, `snapshots` and
`segment_chain`. `sanity` judges indexes as a starting broker does; `identity` and `log_dir_checkpoints` know
the files of a log directory. What is found is told in `findings` of the kinds in `finding_kinds`, all of a
replica in a `partition_report`. `fresh_indexes` writes indexes anew, `replica_comparison` holds two replicas
together.
"""
