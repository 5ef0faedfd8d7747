"""`doctor`: starts a server as a client would, in that client's environment, and explains its faults."""
