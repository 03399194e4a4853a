"""Records of the topics and logs that a cluster keeps for itself.

Says what they hold, not what they do.
"""
