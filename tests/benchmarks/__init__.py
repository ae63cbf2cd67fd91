"""Measurements: run by hand, never as tests."""
