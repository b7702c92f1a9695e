"""From noisy numbers to a table: computed columns, totals, released tables, plots."""
