"""The trio client of the tools: connections, metadata, admin calls, producer, consumer. It opens no files.

`kcli.client.client.connect` opens a client; `kcli.client.admin` holds the admin calls,
`kcli.client.producer.producer` and `kcli.client.consumer.consumer` the producer and the consumer.
"""
