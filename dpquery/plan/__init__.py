"""The language of plans: types, expressions, relational nodes, and what follows from them without rows."""
