"""The limits by which a call chooses between fits, and between weighing and annealing.

docs/thresholds.md shows what changes if one of them is half or twice as large, or is left out.
"""

# Searches for modes
OVERLOOKED = 1e-3
"""Chance that searches miss one more mode whose basin is as large. Chosen: this takes 16 searches
for one mode, 20 for two, 48 for five and 58 for six."""
SEEN_ONCE = 0.05
"""Share of searches that ended at modes that no other one found. The next one ends at a new mode
with about this probability: Good (1953). Chosen."""
FOUND_ONCE = 0.02
"""Share of the posterior at modes that a single search found. Chosen."""
LOST = 0.25
"""Share of searches that end at no mode. Chosen."""

# What a fit misses
RARE = 3.0
"""Nats by which log r at a state is below the log posterior; r then misses the state. Chosen."""
MISSED = 0.03
"""Share of the posterior that a fit misses: log ML falls short by as much, in nats."""
SURPLUS = 5.0
"""Nats by which log p + ℓ − log r at a state that was reached exceeds its values at all draws.
Measured: 6 or more on thin ridges, t₃ posteriors and missed modes; below 3 if a fit is good."""
RESOLVED = 0.1
"""Share of a pivot of a precision that rounding may take. Measured: of six effects whose sum is
known to 1e-5 … 3e-4, log ML is right up to there, and with 0.12 it was 0.14 nats off."""

# Whether its draws are weighed, and how many
UNEVEN = 0.3
"""Relative variance of weights from which a fit is improved, and a nested fit tried. A t
distribution has it on a normal posterior of 20 elements. Measured: on the eight schools not
centred, 3 of 60 calls had no log ML if no nested fit was tried up to 1, and none with this."""
EVEN = 1.0
"""Relative variance of weights up to which the fewest draws suffice."""
MOST_VARIANCE = 5.0
"""Relative variance of the weights of a good fit, if its tails are not known. If they are, as with
a nested or defensive one, more draws are cheaper than annealing."""
LARGEST_GAP = 0.05
"""Mean gap in nats up to which runs are not annealed. Derived: with it 20 data sets can still
certify a total variation of 0.25."""
EVEN_WEIGHTS = 3.0
"""Largest weight over the mean weight with which a burn-in is shortened. Measured on twelve models,
three seeds each: posterior draws then remember at most 1e-5 after the moves made. With a largest
weight of 4 to 25, that of more draws can be 20 times as large, and 100 moves may not be enough."""

# Where a path starts, and how long it is
SCOUTED = 0.5
"""Ratio of Λ² from a fit to Λ² from the prior up to which there are scouts. Chosen."""
WORTHWHILE = 0.25
"""Ratio of these up to which the fitted path is taken if scouts do not decide. Derived: it has 30
temperatures in place of 100, so above 0.3 it would save at the price of accuracy."""
REMEDY = 25.0
"""Ratio of Λ² from the prior to Λ² from a fit up to which the path from the prior is a remedy for a
heavy tail of the weights of the fit. Measured: 6 to 15 on models for which it is one, and 40 to 125
on hierarchies of many groups, where runs from the prior give no answer."""
UNSTEADY = 0.25
"""Variance of log Ẑ of a run, nats², that needs no more temperatures. Chosen: with a larger one,
the error of an average is not reliable."""
HOPELESS = 10.0
"""Variance of log Ẑ of a run, nats², from which its average is worthless. Derived: if log Ẑ is
normal, it takes e¹⁰ runs or more, and a call makes 4096 at most."""
QUICK_RHAT = 1.25
"""R̂ of the pilot at which a particle's further states at β = 1 count as draws. On eight schools,
where it is mostly below, 11 states of a particle are worth three or four; on centred ones, where it
is above, 16 states are worth 1.1."""
