"""Fourier transforms: `FftKernel` and its stages (`build`), and the steps of each (`steps`)."""
