"""The metadata log and the images it makes, and how they reach the nodes. It decides nothing."""
