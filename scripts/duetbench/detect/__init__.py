"""Steps in series: found, confirmed by duets, and traced to the release that caused them."""
