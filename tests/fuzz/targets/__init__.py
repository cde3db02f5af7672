"""What is fuzzed: one file for each target, which holds a `TARGET` (`tests.fuzz.target`)."""
