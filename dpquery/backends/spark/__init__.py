"""Apache Spark: shards by unit, each read in an executor by the embedded engine; what they return is added up here."""
