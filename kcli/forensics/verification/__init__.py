"""The verification of replica directories: whether their files agree with each other; it only reads them.

`partition_verifier` reads the log of each segment once and shows every batch to a check of each file beside
it. The checks report `findings`. `verification_pool` runs the verifications in several processes.
"""
