"""A PyMC model as a path of densities: tempered, jitted, drawn from, simulated, checked."""
