"""Formats: texts and bytes of other tools, read into modules and written from them."""
