# SPDX-License-Identifier: Apache-2.0
"""What collectives cost on a described network: `description`, `formulas`, `events`, `costs`."""
