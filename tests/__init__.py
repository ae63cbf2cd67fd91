"""Everything that checks the project."""
