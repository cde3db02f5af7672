# SPDX-License-Identifier: Apache-2.0
"""What all benchmarks share: programs, engines, worker processes, turns, tables."""
