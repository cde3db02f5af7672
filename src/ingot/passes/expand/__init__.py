"""Expansion: ops that no emitter knows, written as ops that they do know."""
