"""Single functions and classes, without sockets or stores."""
