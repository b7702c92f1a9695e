"""The engine in a process of its own: its worker, its supervisor, its log."""
