"""What keeps a Koordinator cluster from sharing cards as its pods promise, and the commands that fix it."""
