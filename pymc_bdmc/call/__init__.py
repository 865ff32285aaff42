"""A call, stage by stage: options, session, preparation, rounds of annealing, result."""
