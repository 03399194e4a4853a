"""kcli: a Kafka development broker without a JVM, and the administration tools around it."""

__version__ = "0.1.0"
