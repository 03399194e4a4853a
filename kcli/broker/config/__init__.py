"""What may be configured, per scope, and the effective values. It knows no node and no image."""
