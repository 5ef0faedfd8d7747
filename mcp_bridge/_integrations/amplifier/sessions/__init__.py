"""The sessions of Amplifier modules, and what each client keeps in them."""
