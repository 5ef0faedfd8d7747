"""The sessions of Amplifier modules: their clients, their beginnings and ends, and their working directories."""
