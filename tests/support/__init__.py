"""What tests share: toolchains, processes, brokers, records and a bare wire client."""
