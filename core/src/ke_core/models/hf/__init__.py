"""Models that transformers loads, from the hub or a local folder."""
