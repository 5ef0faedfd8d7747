"""Public Amplifier modules, unmodified and pinned, through the official client in both eras.

Not a part of the tests: it fetches from the network. `make modules`, or with clones of the repositories in a folder
`python -m tests.kits.amplifier.public_modules --clones FOLDER` (FOLDER/NAME, or FOLDER/NAME.git). Prints what it has
seen, and ends with 1 where that is not what it should be.
"""
