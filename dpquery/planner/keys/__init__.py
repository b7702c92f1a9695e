"""Group keys whose public values follow from declarations, literals and public tables."""
