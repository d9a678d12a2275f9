"""Settings: TOML layers to frozen data, every mistake at once with its line. Nothing here knows which kinds of agent there are."""
