"""What a run is: facts come in, requests go out. Pure: no git, agents, clock, chance, disk or logging."""
