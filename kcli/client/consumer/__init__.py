"""The consumer: the application's face of fetching and of the group it is in."""
