"""Kits: code shared by several test modules. They hold no tests and no fixtures.

Each folder serves one subject, mostly that of the test folder with the same name: servers and clients to run, tools and
files to serve, strategies for hypothesis. `fuzzing` (number of examples, past failures), `loops` (event loops) and
`paths` (the repository) serve all tests. `corpus` has the inputs of past failures.
"""
