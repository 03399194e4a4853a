"""Texts as a Java program prints them, which the original tools are."""
