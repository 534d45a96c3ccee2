"""How parties are reached: in this process, or in others; a method never knows which."""
