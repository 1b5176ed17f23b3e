"""What workers and switches tell Prometheus, and the endpoint that it scrapes. It needs the package "
"prometheus-client."""
