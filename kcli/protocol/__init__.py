"""The Kafka protocol: messages, frames, record formats. Pure: bytes in, values out."""
