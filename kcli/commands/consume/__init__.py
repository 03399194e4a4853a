"""`kcli consume`: reads records and prints them."""
