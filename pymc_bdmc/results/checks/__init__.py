"""One file a check: a reading in, a finding out, in numbers and without a word."""
