"""Stages: a program with sizes that it computes, as programs whose sizes are known at each start."""
