"""Several calls of `sample_bdmc` for one question."""
