"""Rewriting: the pass base class and runner, pattern rules and their worklist driver."""
