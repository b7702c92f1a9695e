"""Private plan to budgeted plan: how the loss is split among measurements, and targets of accuracy."""
