"""What may happen around a call: one file a policy; they never import each other."""
