"""Linalg: linear algebra ops."""
