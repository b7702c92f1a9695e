"""Sources of tables and how their values are read: frames, Arrow, files, prepared folders, owners of rows, what must stay unchanged."""
