"""What each API does: one module per noun, a function is named as its API."""
