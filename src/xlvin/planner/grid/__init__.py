"""Planners that are told the maze's map: VIN, GVIN and GPPN, and a CNN that does not plan."""
