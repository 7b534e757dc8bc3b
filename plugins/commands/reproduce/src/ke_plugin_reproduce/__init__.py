"""Published tables and figures: read from their files, run, and set beside what was printed."""
