"""Members trained without a fold, what they say of it, and labels made of everybody's word."""
