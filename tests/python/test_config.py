"""Where settings come from, and the errors of bad settings."""

import importlib.util
import sys

import pytest

from jaxina import _native, config
from jaxina.config import installed
from jaxina.config import settings as declared
from jaxina.control.rendezvous import check_equal_settings
from jaxina.errors import InvalidArgumentError, MismatchError


def test_defaults_depend_on_the_aggregator():
    embedded, udp = config.resolve({}), config.resolve({}, aggregator="udp")
    assert (embedded.aggregator, embedded.slots, embedded.blocks_per_chunk) == ("embedded", 8, 32)
    assert (udp.slots, udp.blocks_per_chunk, udp.block_size) == (128, 1, 256)
    assert set(embedded.origins.values()) == {"default"}


def test_a_gpu_gets_a_larger_pool_in_shared_memory():
    embedded, udp = config.resolve({}, on_gpu=True), config.resolve({}, on_gpu=True, aggregator="udp")
    assert (embedded.slots, embedded.blocks_per_chunk) == (256, 63)
    assert (udp.slots, udp.blocks_per_chunk) == (128, 1)
    assert config.resolve({}, on_gpu=True, slots=4).slots == 4


def test_arguments_beat_the_environment_which_beats_defaults():
    environ = {
        "JAXINA_AGGREGATOR": "udp",
        "JAXINA_SLOTS": "8",
        "JAXINA_LOSS": "0.25",
        "JAXINA_LOG": "",
    }
    resolved = config.resolve(environ, slots=4)
    assert (resolved.aggregator, resolved.slots, resolved.loss, resolved.log) == (
        "udp",
        4,
        0.25,
        "warning",
    )
    assert resolved.origins["slots"] == "argument"
    assert resolved.origins["aggregator"] == "environment"
    assert resolved.origins["log"] == resolved.origins["timeout"] == "default"


@pytest.mark.parametrize(
    "name,value",
    [
        ("AGGREGATOR", "switchml"),
        ("SWITCH", "nohost"),
        ("SWITCH", "host:99999"),
        ("SWITCH", "::1:5"),
        ("SLOTS", "0"),
        ("SLOTS", "65536"),
        ("SLOTS", "many"),
        ("BLOCK_SIZE", "-1"),
        ("BLOCK_SIZE", "7"),
        ("BLOCK_SIZE", "16385"),
        ("BLOCKS_PER_CHUNK", "65"),
        ("JOIN_TIMEOUT", "0"),
        ("TIMEOUT", "inf"),
        ("TIMEOUT", "nan"),
        ("HEARTBEAT_TIMEOUT", "soon"),
        ("LOSS", "1"),
        ("LOSS", "-0.1"),
        ("LOSS", "nan"),
        ("LOSS_SEED", "1.5"),
        ("CODEC", "sse"),
        ("LOG", "loud"),
        ("RANK", "-1"),
        ("PROCESSES", "0"),
        ("RDMA_DEVICE", "mlx5_0:0"),
        ("RDMA_DEVICE", "mlx5_0:256"),
        ("RDMA_DEVICE", "mlx5_0:1:256"),
        ("RDMA_DEVICE", "mlx5_0:1:2:3"),
        ("RDMA_DEVICE", "mlx5_0:"),
        ("RDMA_DEVICE", ":1"),
    ],
)
def test_a_bad_value_names_variable_value_and_what_is_allowed(name, value):
    field = {config.variable(field.name): field for field in config.fields()}[f"JAXINA_{name}"]
    with pytest.raises(InvalidArgumentError) as caught:
        config.resolve({f"JAXINA_{name}": value})
    assert caught.value.message == f"JAXINA_{name}={value!r} is not allowed: give {field.metadata['kind'].allowed}"


def test_a_bad_argument_is_named_as_the_argument():
    with pytest.raises(InvalidArgumentError, match=r"^jaxina\[INVALID_ARGUMENT\]: slots=0 is not allowed"):
        config.resolve({}, slots=0)
    with pytest.raises(InvalidArgumentError, match="'slot' is not a setting"):
        config.resolve({}, slot=1)


TOKEN = "correct-horse-battery"


def test_a_token_is_shown_nowhere():
    resolved = config.resolve({"JAXINA_TOKEN": TOKEN})
    (field,) = [field for field in config.fields() if field.name == "token"]
    assert resolved.token == TOKEN
    assert TOKEN not in repr(resolved) and TOKEN not in str(resolved.shared)
    assert config.shown(field, resolved.token) == "(set)" and config.shown(field, None) == ""


@pytest.mark.parametrize("bad", ["short", "x" * 257, "with spaces between it", "schöner-langer-token"])
def test_a_bad_token_is_refused_without_being_told(bad):
    for given in (dict(environ={"JAXINA_TOKEN": bad}), dict(environ={}, token=bad)):
        with pytest.raises(InvalidArgumentError, match="16 to 256 printable") as caught:
            config.resolve(**given)
        assert bad not in caught.value.message


@pytest.mark.parametrize(
    "aggregator,block_size,blocks",
    [
        ("embedded", 256, 32),
        ("embedded", 2048, 4),
        ("embedded", 3000, 2),
        ("embedded", 16000, 1),
        ("embedded", 8, _native.MAX_BLOCKS_PER_CHUNK),
        ("direct", 512, 1),
        ("udp", 2048, 1),
        ("udp", 64, 4),
        ("verbs", 512, 8),
    ],
)
def test_left_out_blocks_per_chunk_follow_the_block_size(aggregator, block_size, blocks):
    environ = {"JAXINA_AGGREGATOR": aggregator, "JAXINA_BLOCK_SIZE": str(block_size)}
    resolved = config.resolve(environ)
    assert resolved.blocks_per_chunk == blocks and resolved.origins["blocks_per_chunk"] == "default"
    assert resolved.shape(devices=4, workers=2).blocks_per_chunk == blocks
    assert config.resolve(environ, blocks_per_chunk=1).blocks_per_chunk == 1, "given, it stays"


@pytest.mark.parametrize("aggregator", ["embedded", "udp", "roce", "verbs", "netreduce"])
@pytest.mark.parametrize(
    "block_size,blocks,size",
    [(16384, 32, 2097260), (3000, 32, 384108), (2048, 8, 65612), (16384, 1, 65584), (16384, None, 65584)],
)
def test_packets_that_no_datagram_holds(aggregator, block_size, blocks, size):
    environ = {"JAXINA_AGGREGATOR": aggregator, "JAXINA_BLOCK_SIZE": str(block_size)}
    if blocks is not None:
        environ["JAXINA_BLOCKS_PER_CHUNK"] = str(blocks)
    with pytest.raises(InvalidArgumentError, match=f"packets of {size} bytes") as caught:
        config.resolve(environ)
    assert "lower JAXINA_BLOCK_SIZE or JAXINA_BLOCKS_PER_CHUNK" in caught.value.message


@pytest.mark.parametrize(
    "constant,setting",
    [
        ("MAX_SLOTS", "slots"),
        ("MIN_BLOCK_SIZE", "block_size"),
        ("MAX_BLOCK_SIZE", "block_size"),
        ("MAX_BLOCKS_PER_CHUNK", "blocks_per_chunk"),
        ("MAX_WORKERS", "processes"),
    ],
)
def test_the_limits_are_those_of_the_native_code(constant, setting, monkeypatch):
    """The test changes a native constant and imports the settings again. The setting must then allow the new limit."""
    monkeypatch.setattr(_native, constant, 77)
    anew = importlib.util.spec_from_file_location("settings_read_anew", declared.__file__)
    module = importlib.util.module_from_spec(anew)
    monkeypatch.setitem(sys.modules, anew.name, module)
    anew.loader.exec_module(module)
    (field,) = [field for field in module.fields() if field.name == setting]
    assert "77" in field.metadata["kind"].allowed.split()


def test_launcher_variables_belong_together():
    with pytest.raises(InvalidArgumentError, match="belong together"):
        config.resolve({"JAXINA_RANK": "0"})
    launched = {"JAXINA_COORDINATOR": "127.0.0.1:5", "JAXINA_PROCESSES": "2"}
    assert config.resolve({**launched, "JAXINA_RANK": "1"}).rank == 1
    with pytest.raises(InvalidArgumentError, match="JAXINA_RANK=2 is not below"):
        config.resolve({**launched, "JAXINA_RANK": "2"})


def test_unknown_variables_are_found():
    assert config.unknown_variables({"JAXINA_SLOT": "1", "JAXINA_SLOTS": "1", "HOME": "/"}) == ["JAXINA_SLOT"]


def test_only_what_must_agree_is_shared():
    embedded = config.resolve({}, switch="a:1")
    assert "switch" not in embedded.shared, "nobody asks the switch"
    assert "switch" not in config.resolve({}, aggregator="direct", switch="a:1").shared
    assert config.resolve({}, aggregator="udp", switch="a:1").shared["switch"] == "a:1"
    assert "switch" not in config.resolve({}, aggregator="netreduce").shared, "without a switch, the workers add"
    assert config.resolve({}, aggregator="netreduce", switch="a:1").shared["switch"] == "a:1"
    assert embedded.shared == config.resolve({}, timeout=5, loss_seed=9).shared
    with_device = config.resolve({"JAXINA_RDMA_DEVICE": "mlx5_0"}, aggregator="netreduce")
    assert with_device.shared != config.resolve({}, aggregator="netreduce").shared, "all use a device, or none"
    assert with_device.shared == config.resolve({"JAXINA_RDMA_DEVICE": "rxe0:1"}, aggregator="netreduce").shared


@pytest.mark.parametrize("package", ["jaxina", "jax", "jaxlib"])
def test_processes_of_other_versions_do_not_meet(monkeypatch, package: str):
    here = config.resolve({}).shared
    version = installed.version
    monkeypatch.setattr(installed, "version", lambda name: "0.0.9" if name == package else version(name))
    there = config.resolve({}).shared
    with pytest.raises(MismatchError, match=f"process 3 has version of {package}='0.0.9'.*installed packages"):
        check_equal_settings(3, there, 0, here)


def test_an_rdma_device_may_have_a_port_and_a_gid():
    def device(aggregator: str, given: str = "") -> config.RdmaDevice | None:
        return config.resolve({"JAXINA_RDMA_DEVICE": given}, aggregator=aggregator).device

    assert device("verbs") == ("", None, None)
    assert device("netreduce") is None, "sockets"
    assert device("netreduce", "mlx5_0") == ("mlx5_0", None, None)
    assert device("verbs", "mlx5_0:2") == ("mlx5_0", 2, None)
    assert device("netreduce", "mlx5_0:1:0") == ("mlx5_0", 1, 0)
    assert device("udp", "mlx5_0") is None


def test_an_rdma_device_drops_no_packets():
    for aggregator in ("verbs", "netreduce"):
        lossy = config.resolve({"JAXINA_RDMA_DEVICE": "mlx5_0"}, aggregator=aggregator, loss=0.1)
        with pytest.raises(InvalidArgumentError, match="an RDMA device cannot drop packets"):
            config.check_used(lossy)
    config.check_used(config.resolve({}, aggregator="netreduce", loss=0.1))


@pytest.mark.parametrize("bits", [8, 16])
def test_a_ring_refuses_narrow_words_at_once(bits):
    with pytest.raises(InvalidArgumentError, match=f"JAXINA_BITS={bits} is given, but netreduce adds words of 32 bits"):
        config.check_used(config.resolve({"JAXINA_BITS": str(bits)}, aggregator="netreduce"))
    config.check_used(config.resolve({}, aggregator="netreduce", bits=64))


def test_a_ring_has_fewer_slots_if_a_switch_adds():
    alone = config.resolve({}, aggregator="netreduce")
    with_switch = config.resolve({"JAXINA_SWITCH": "10.0.0.9:51000"}, aggregator="netreduce")
    assert alone.slots > with_switch.slots
    assert with_switch.origins["slots"] == "default"
    assert config.resolve({}, aggregator="netreduce", switch="10.0.0.9:51000", slots=7).slots == 7
    assert (
        config.resolve({}, aggregator="udp", switch="10.0.0.9:51000").slots
        == config.resolve({}, aggregator="udp").slots
    )


@pytest.mark.parametrize(
    "text,parts",
    [("10.0.0.1:51000", ("10.0.0.1", 51000)), ("[::1]:5", ("::1", 5)), ("host:0", ("host", 0))],
)
def test_addresses(text, parts):
    assert config.split_address(text) == parts


def test_every_setting_is_documented_and_its_default_is_allowed():
    for field in config.fields():
        assert field.metadata["doc"].endswith(".")
        default = field.metadata["default"]
        for value in default.values() if isinstance(default, dict) else [default]:
            assert value is None or field.metadata["kind"].parse(str(value)) == value


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"aggregator": "udp", "switch": "a:1,b:2"}, "names several switches"),
        ({"aggregator": "udp", "servers": "a:1"}, "has no servers"),
        ({"aggregator": "embedded", "servers": "a:1"}, "has no servers"),
    ],
)
def test_switches_and_servers_that_the_aggregator_does_not_use_are_refused(settings, message):
    with pytest.raises(InvalidArgumentError, match=message):
        config.check_used(config.resolve({}, **settings))


def test_atp_may_have_several_switches_and_servers():
    resolved = config.resolve({}, aggregator="atp", switch="a:1,[::1]:2", servers="c:3")
    config.check_used(resolved)
    assert resolved.switches_on_the_way == ["a:1", "[::1]:2"] and resolved.dedicated_servers == ["c:3"]
    assert resolved.shared["servers"] == "c:3"
    assert resolved.shared == config.resolve({}, aggregator="atp", switch="c:1,d:2", servers="c:3").shared
    assert resolved.shared != config.resolve({}, aggregator="atp", switch="a:1", servers="c:3").shared
    assert config.resolve({}, aggregator="udp").switches_on_the_way == []
    with pytest.raises(InvalidArgumentError, match="JAXINA_SERVERS"):
        config.resolve({"JAXINA_SERVERS": "a:1,,"})
