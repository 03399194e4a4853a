"""Writing: a task reads, shapes and writes the rows of its split. Never writes a plan or commit."""
