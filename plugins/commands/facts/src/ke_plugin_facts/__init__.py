"""Keep the facts of a model in a file; plan, apply and roll back its changes."""
