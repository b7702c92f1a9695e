"""The owner's page: what was spent by whom, on what, and whether the ledger is whole; and the same as metrics."""
