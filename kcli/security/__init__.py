"""What both sides of a login and an authorizer share: names, numbers, mechanisms, stores. Opens no socket."""
