"""Settings: TOML layers to frozen data, every mistake at once with its line; trust in a repository's commands; a first file.

Nothing here starts an agent, asks a person or knows which kinds of agent there are.
"""

from nightcrew.config.agents import KindInfo
from nightcrew.config.build import Config, config_home, load, machine_file
from nightcrew.config.mistakes import ConfigError, Mistake, Origin

__all__ = ["Config", "ConfigError", "KindInfo", "Mistake", "Origin", "config_home", "load", "machine_file"]
