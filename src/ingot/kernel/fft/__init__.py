# SPDX-License-Identifier: Apache-2.0
"""Fourier transforms: `FftKernel` and its stages (`build`), and the steps of each (`steps`)."""
