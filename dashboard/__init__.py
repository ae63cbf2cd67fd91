"""The browser side: controls, cached results, pictures and pages."""
