"""The controller: the only writer of metadata. Decisions are pure; one class commits them."""
