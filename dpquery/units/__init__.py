"""Whose rows these are: what is declared of privacy units, and whether a relation keeps the rows of units apart.

The trusted base begins here; docs/proofs/reading-order.md goes through it file by file.
"""
