"""Transactional ids and their transactions: init, add, end, expire, list. Pure: it never does I/O."""
