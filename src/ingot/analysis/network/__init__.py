# SPDX-License-Identifier: Apache-2.0
"""The cost of collectives on a described network: `description`, `formulas`, `events`, `costs`."""
