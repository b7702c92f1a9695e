"""What has been spent, durably: charges that nothing takes back, shared by processes, in a file or in PostgreSQL."""
