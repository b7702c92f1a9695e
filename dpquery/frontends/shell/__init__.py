"""`dpquery shell`: ask one query after the other, and see what each would cost before it is paid."""
