"""Passes: what changes a module on its way from HLO to kernels, one package for each purpose."""
