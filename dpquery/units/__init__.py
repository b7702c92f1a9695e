"""Whose rows these are: what is declared of privacy units, and whether a relation keeps the rows of units apart."""
