"""Code that compiled programs call but Ingot did not generate: registered custom-call targets."""
