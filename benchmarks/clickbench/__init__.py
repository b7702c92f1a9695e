"""Questions about a table of page views, in the manner of ClickBench."""
