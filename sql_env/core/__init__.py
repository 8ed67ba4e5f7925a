"""The environment's engine room: standard library only."""
