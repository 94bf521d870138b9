"""How people use such a server, as locust files. `make load` runs them."""
