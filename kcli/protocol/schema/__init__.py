"""Declarations of what travels, and the encoders and decoders made of them. Knows no message."""
