"""Facts about modules that several layers need; computed on demand, invalidated by edits."""
