"""Settings of Hypercorn that its command line does not have."""

# It would close a connection after 1,000 requests, under the generator's hands.
keep_alive_max_requests = 2**62
