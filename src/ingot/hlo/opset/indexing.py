"""Indexing: gather and scatter ops."""
