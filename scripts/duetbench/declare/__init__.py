"""What is written in TOML: experiments, published figures, servers, settings."""
