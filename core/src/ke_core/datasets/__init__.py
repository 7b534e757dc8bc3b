"""Cases as files, and datasets as a whole: written, read back, checked, fetched."""
