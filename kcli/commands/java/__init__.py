"""Texts as a Java program prints them, which the original tools are.

`text` fills columns as `printf` does, `json` is Jackson's, `utf8` reads bytes as `String` does, and `order`
is the order of a `HashMap`.
"""
