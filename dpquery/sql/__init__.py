"""SQL text to logical plans: `parse`, then `names`, then `bind`; `statements` are read for servers before that."""
