"""Statements of clients that are read before they are bound: what they ask for, and what needs no query to answer."""
