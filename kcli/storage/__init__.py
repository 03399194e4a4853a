"""Log directories as Apache Kafka has them: files, formats, recovery; synchronous, never opens a socket."""
