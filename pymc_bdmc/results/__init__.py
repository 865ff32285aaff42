"""Write a result as a DataTree, and read everything from it."""
