"""`df.dp`: private statistics of a frame in pandas' own words. It declares, writes queries and shapes answers; all that
protects anybody is under `Session`.
"""
