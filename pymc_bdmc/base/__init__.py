"""What every room may use: schedules, random streams, types, argument checks, compilation."""
