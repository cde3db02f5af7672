"""Scheduling: in which order the host program runs the instructions."""
