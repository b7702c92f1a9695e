"""Text to a parsed tree: the adapter of sqlglot, dialects, lexical rules, parameters."""
