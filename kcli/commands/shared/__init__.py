"""What several commands share: options, the runner, output, sessions, and the formatting of values."""
