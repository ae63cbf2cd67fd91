"""Pages and what is under them, without a browser."""
