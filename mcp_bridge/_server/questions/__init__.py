"""Questions of tools to the user, in both protocol eras."""
