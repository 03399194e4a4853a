"""Declarations of messages and records, and the encoders and decoders compiled from them."""
