"""TPC-H with the customer as the privacy unit: catalog, the standard queries, and which of them are answered."""
