"""Who a connection is, and what it may do: logins, credentials, authorizer. Decides no metadata."""
