"""`doctor`: starts a server as a client would, with the client's environment, and explains its faults."""
