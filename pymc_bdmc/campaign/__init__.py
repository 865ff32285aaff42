"""A call from its arguments to its result: preparation, rounds of annealing, and the store."""
