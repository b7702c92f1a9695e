"""PostgreSQL's protocol: connections, and what listens to them."""
