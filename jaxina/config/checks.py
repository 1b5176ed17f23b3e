"""Checks whether settings fit together."""

from __future__ import annotations

from jaxina._native import check_encryption
from jaxina.config.settings import Configuration, variable
from jaxina.errors import InvalidArgumentError


def check_used(configuration: Configuration) -> None:
    """Checks that the aggregator uses the settings that were given.

    A setting from the environment may be meant for other runs. So it is refused only if nobody chose the aggregator.

    Raises:
      InvalidArgumentError: the aggregator does not use a setting that was given, or cannot do what it asks.
    """
    aggregator = configuration.aggregator
    if aggregator == "netreduce" and configuration.bits < 32:
        raise InvalidArgumentError(
            f"{variable('bits')}={configuration.bits} is given, but netreduce adds words of 32 bits: leave bits out, "
            "or choose another aggregator"
        )
    if configuration.encrypts:
        _check_encryption(configuration)
    if configuration.servers is not None and aggregator not in ("direct", "atp"):
        raise InvalidArgumentError(
            f"{variable('servers')}={configuration.servers} is given, but the {aggregator} aggregator has no servers: "
            "choose direct or atp, or leave servers out"
        )
    if configuration.loss and configuration.device is not None and configuration.origins["loss"] == "argument":
        raise InvalidArgumentError(
            f"{variable('loss')}={configuration.loss} is given, but an RDMA device cannot drop packets: leave loss or "
            f"{variable('rdma_device')} out, or choose {variable('aggregator')}=roce"
        )
    if configuration.uses_switch:
        if aggregator != "atp" and "," in configuration.switch:
            raise InvalidArgumentError(
                f"{variable('switch')}={configuration.switch} names several switches, but the {aggregator} aggregator "
                "uses one: choose atp, or name one switch"
            )
        return
    ignored = {"argument", "environment"} if configuration.origins["aggregator"] == "default" else {"argument"}
    unused = {"embedded": (("switch", "network"), ("loss", "network")), "direct": (("switch", "switch"),)}
    for name, lacks in unused.get(aggregator, ()):
        given = getattr(configuration, name)
        if given and configuration.origins[name] in ignored:
            raise InvalidArgumentError(
                f"{variable(name)}={given} is given, but the {aggregator} aggregator has no {lacks}: choose "
                f"{variable('aggregator')}=udp (or --aggregator udp, or jaxina.init('udp')), or leave {name} out"
            )


# Why aggregators cannot encrypt.
_CLEAR = {
    "atp": "switches on the way add what they read in packets",
    "roce": "the switch takes RDMA packets, which RDMA devices could not decrypt",
    "verbs": "RDMA devices write what arrives to memory as it is",
    "netreduce": "RDMA devices, and the switch on the way, take packets as they are",
}


def _check_encryption(configuration: Configuration) -> None:
    asked = f"{variable('encryption')}=yes"
    if why := _CLEAR.get(configuration.aggregator):
        raise InvalidArgumentError(
            f"{asked} is given, but {configuration.aggregator} cannot encrypt: {why}. Choose udp or direct, or an "
            "encrypted network (WireGuard or IPsec)"
        )
    if configuration.servers is not None:
        raise InvalidArgumentError(
            f"{asked} is given, but the hosts of {variable('servers')} cannot encrypt yet: leave them out, so that the "
            "workers sum, or choose udp"
        )
    if configuration.tls_authority is None:
        raise InvalidArgumentError(
            f"{asked} needs TLS, or the keys would travel in the clear: set {variable('tls_authority')}, "
            f"{variable('tls_certificate')} and {variable('tls_key')} at the workers and at the switch"
        )
    check_encryption()


def check_together(configuration: Configuration) -> None:
    configuration.shape(devices=1, workers=1)  # raises if slots, blocks and chunks do not fit together
    coordinator, rank, processes = configuration.coordinator, configuration.rank, configuration.processes
    if any(value is not None for value in (coordinator, rank, processes)):
        if coordinator is None or rank is None or processes is None:
            raise InvalidArgumentError(
                f"{variable('coordinator')}, {variable('rank')} and {variable('processes')} belong together: set all "
                "three, or none"
            )
        if rank >= processes:
            raise InvalidArgumentError(
                f"{variable('rank')}={rank} is not below {variable('processes')}={processes}: ranks count from 0"
            )
