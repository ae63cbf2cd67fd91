"""The running app in a real browser."""
