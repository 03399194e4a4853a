"""One replica's log: segments, append, read, truncation, retention; never knows who leads the partition."""
