"""A result as a DataTree, and everything that is read from it."""
