"""Attention with a mistake in it: what a verdict is worth is what it can catch."""
