"""The controller: the only writer of metadata. Its decisions are pure; `Controller` commits them."""
