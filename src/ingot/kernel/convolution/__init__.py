# SPDX-License-Identifier: Apache-2.0
"""Convolutions: which of four ways runs one, and the numbers that its driver takes.

As an implicit matrix product (`build`), directly (`direct`), by Winograd's
F(2x2, 3x3) (`winograd`), and gradients of filters (`filter_gradient`); `plain` says which ones the
library runs.
"""
