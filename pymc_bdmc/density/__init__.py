"""Turn a PyMC model into tempered densities: compile, draw, simulate and check them."""
