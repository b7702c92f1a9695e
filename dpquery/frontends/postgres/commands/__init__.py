"""Statements that are no queries, read and answered: SET, cursors, COPY, transactions."""
