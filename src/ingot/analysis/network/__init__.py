# SPDX-License-Identifier: Apache-2.0
"""The cost of collectives on a described network.

`description` is the network in a few numbers, `formulas` the time of each collective on it,
`events` a simulation that the formulas are tested against.
"""
