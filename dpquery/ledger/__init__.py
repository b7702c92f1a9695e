"""What has been spent, durably: charges that nothing takes back, shared by all processes, in SQLite or PostgreSQL."""
