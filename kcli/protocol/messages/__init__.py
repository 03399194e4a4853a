"""One module per API: the request, the response and the structs they are made of."""
