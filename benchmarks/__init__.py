"""Benchmarks against named rivals: see README.md beside this file."""
