"""Models behind an OpenAI-compatible server. Nothing here imports torch, and the HTTP library late."""
