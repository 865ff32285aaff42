"""The engine of PyMC's step methods, tuned by pilot chains."""
