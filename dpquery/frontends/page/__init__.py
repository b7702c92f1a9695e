"""The analyst's page: SQL in a browser, priced before it is paid. A client of `dpquery serve`, with a password as any
other, so that all limits of the server hold; it holds no data and no ledger."""
