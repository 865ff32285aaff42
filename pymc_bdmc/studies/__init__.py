"""Several calls of `sample_bdmc` for one question, one file a question."""
