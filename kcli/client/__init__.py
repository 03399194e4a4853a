"""The trio client behind the tools: connections, metadata, admin calls, producer and consumer.

`kcli.client.client.connect` opens a client; `kcli.client.admin` holds the admin calls, and
`kcli.client.producer.producer` and `kcli.client.consumer.consumer` the two ends of a topic.
"""
