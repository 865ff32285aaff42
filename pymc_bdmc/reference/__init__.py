"""References: distributions near the posterior to draw from, with known densities."""
