"""What one process hosts: its nodes, their start and end, and what commands ask of it.

It answers no Kafka request.
"""
