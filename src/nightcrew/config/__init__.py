"""Settings: TOML layers to frozen data, every mistake at once with its line. Nothing here knows which kinds of agent there are."""

from nightcrew.config.build import Config, config_home, load, machine_file
from nightcrew.config.layers import ConfigError, KindInfo, Mistake, Origin

__all__ = ["Config", "ConfigError", "KindInfo", "Mistake", "Origin", "config_home", "load", "machine_file"]
