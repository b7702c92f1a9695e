"""Sources and how values are read: frames, Arrow, files, prepared folders, owners, what must stay unchanged."""
