"""The channel to training processes: records up, commands down, over a Unix packet socket."""
