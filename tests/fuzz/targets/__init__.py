# SPDX-License-Identifier: Apache-2.0
"""What is fuzzed: one file for each target, which holds a `TARGET` (`tests.fuzz.target`)."""
