"""Engine of PyMC's step methods, tuned by pilot chains."""
