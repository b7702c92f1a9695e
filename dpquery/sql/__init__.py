"""SQL text to logical plans: `parse`, then `names`, then `bind`."""
