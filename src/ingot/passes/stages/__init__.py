# SPDX-License-Identifier: Apache-2.0
"""Stages: a program that computes sizes, as programs whose sizes are known at each start.

`split` makes the stages, and the code between them, by the `levels` of instructions;
`stage_module` makes a program of each; `donation` decides which memory each takes over.
"""
