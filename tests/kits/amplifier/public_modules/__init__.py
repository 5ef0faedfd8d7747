"""Public Amplifier modules, unmodified and pinned, called by the official client in both eras.

This is not a part of the tests, because it needs the network. Run `make modules`, or `python -m
tests.kits.amplifier.public_modules --clones FOLDER` with clones of the repositories (FOLDER/NAME, or FOLDER/NAME.git).
It prints its observations and ends with 1 if one is unexpected.
"""
