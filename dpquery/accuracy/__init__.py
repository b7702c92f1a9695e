"""From measurements to intervals and bias, before a query and after it: one set of rules for error propagation."""
