"""How far an example's gradient agrees with the gold gradient, in forward mode."""
