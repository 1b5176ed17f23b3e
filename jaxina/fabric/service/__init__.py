"""Training with the scheduler: its daemon, servers and replicas, and the workers' client.

`jaxina fabric scheduler` runs a daemon (`daemon`), which plans with `job`. `jaxina fabric server` and `replica` have
the model (`model_server`). A training program is a `client.Client`. Between them go messages over gRPC
(`fabric.proto`), and frames over TCP (`jaxina.fabric.transfer`).
"""
