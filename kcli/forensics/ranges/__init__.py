"""Long logs read in several processes: the pool of workers and the ranges; nothing here prints."""
