"""Heads that have learnt: tasks, a small transformer, its training, and trained weights that come with it."""
