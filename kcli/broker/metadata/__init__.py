"""The metadata log, the images made from it, and their way to the nodes; it decides nothing."""
