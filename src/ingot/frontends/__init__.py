"""Front ends: each turns one framework's programs into modules and runs what comes back."""
