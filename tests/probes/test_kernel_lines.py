from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpudiag.probes.kernel_lines import KernelFact, normalise_pci, parse, strip_prefix

XID79 = "NVRM: Xid (PCI:0000:b3:00): 79, pid=4242, name=python, GPU has fallen off the bus."

PREFIXES = [
    "",
    "[12345.678901] ",
    "[    1.234567] ",
    "[Mon Dec  1 03:00:00 2025] ",
    "Dec  1 03:00:00 node kernel: ",
    "Dec  1 03:00:00 node kernel: [12345.678901] ",
    "2025-12-01T03:00:00.123456+00:00 node kernel: ",
    "2025-12-01 03:00:00 node kernel[1]: ",
    "kernel: [123.456789] ",
    "<4>[  123.456789] ",
    "kern  :warn  : [  123.456789] ",
    "[12345.678901][ T1234] ",
    "6,1234,5678,-;",
    "6,1234,5678,-,caller=T123;",
]


@pytest.mark.parametrize("prefix", PREFIXES)
def test_every_prefix_is_taken_off(prefix: str) -> None:
    assert parse(prefix + XID79) == KernelFact(
        "xid", "0000:b3:00.0", 79, 4242, "python", detail="GPU has fallen off the bus."
    )


@pytest.mark.parametrize("prefix", [p for p in PREFIXES if "][" not in p])
def test_strip_prefix_leaves_the_kernels_words(prefix: str) -> None:
    assert strip_prefix(prefix + XID79) == XID79


@pytest.mark.parametrize(
    ("bus", "expected"),
    [
        ("PCI:0000:b3:00", "0000:b3:00.0"),
        ("0000:B3:00", "0000:b3:00.0"),
        ("PCI:0000:B3:00.0", "0000:b3:00.0"),
        ("PCI:0018:01:00", "0018:01:00.0"),
        ("PCI:0000:07:00 GPU-I:05", "0000:07:00.0"),
    ],
)
def test_every_form_of_the_bus_id_of_an_xid(bus: str, expected: str) -> None:
    fact = parse(f"NVRM: Xid ({bus}): 13, pid=1, name=a, Graphics Exception")
    assert fact is not None
    assert (fact.pci, fact.code) == (expected, 13)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("00000000:B3:00.0", "0000:b3:00.0"),
        ("00010000:E1:00.0", "10000:e1:00.0"),
        ("PCI:0000:3b:00", "0000:3b:00.0"),
        ("3b:00.1", "0000:3b:00.1"),
        ("GPU-1234", ""),
        ("", ""),
    ],
)
def test_pci_addresses_of_nvml_and_driver_join(text: str, expected: str) -> None:
    assert normalise_pci(text) == expected


def test_an_xid_without_a_process() -> None:
    fact = parse("NVRM: Xid (0000:03:00): 13, 0001 00000000 0000a197")
    assert fact == KernelFact("xid", "0000:03:00.0", 13, detail="0001 00000000 0000a197")


def test_an_unknown_process_is_absent() -> None:
    fact = parse("NVRM: Xid (PCI:0000:b3:00): 45, pid='<unknown>', name=<unknown>, Ch 00000010")
    assert fact == KernelFact("xid", "0000:b3:00.0", 45, detail="Ch 00000010")


def test_the_verdict_of_154_is_the_last_parenthesis() -> None:
    fact = parse(
        "NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed from 0x0 (None) to "
        "0x1 (GPU Reset Required)"
    )
    assert fact is not None
    assert fact.detail == "GPU Reset Required"


def test_a_154_without_a_verdict_keeps_its_words() -> None:
    fact = parse("NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed")
    assert fact is not None
    assert fact.detail == "GPU recovery action changed"


@pytest.mark.parametrize(("word", "severity"), [("Nonfatal", "nonfatal"), ("Fatal", "fatal")])
def test_nvlink5_codes_say_whether_they_are_fatal(word: str, severity: str) -> None:
    fact = parse(f"NVRM: Xid (PCI:0018:01:00): 145, RLW_RXPIPE {word} XC0 i0 Link 12 (0x4 0x8)")
    assert fact is not None
    assert fact.severity == severity


def test_an_sxid_names_its_switch() -> None:
    fact = parse("nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 20034, Fatal, Link 30 LTSSM Fault Up")
    assert fact == KernelFact(
        "sxid",
        "0000:05:00.0",
        20034,
        name="nvidia-nvswitch3",
        severity="fatal",
        detail="Fatal, Link 30 LTSSM Fault Up",
    )


def test_the_register_dump_of_an_sxid_is_no_second_error() -> None:
    assert parse("nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 20034, Data {0x50610002}") is None


PCI = "0000:b3:00.0"


@pytest.mark.parametrize(
    "line",
    [
        f"NVRM: GPU {PCI}: GPU has fallen off the bus.",
        "NVRM: GPU at 00000000:B3:00.0 has fallen off the bus.",
        f"NVRM: The NVIDIA GPU {PCI}\nNVRM: (PCI ID: 10de:2330) installed in this system has\n"
        "NVRM: fallen off the bus and is not responding to commands.",
    ],
)
def test_fallen_off_without_the_word_xid(line: str) -> None:
    fact = parse(line)
    assert fact is not None
    assert (fact.kind, fact.pci) == ("fallen_off_bus", PCI)


@pytest.mark.parametrize(
    ("line", "kind", "pci", "detail"),
    [
        (f"nvidia {PCI}: resetting", "gpu_reset", PCI, "resetting"),
        (f"nvidia {PCI}: not ready 1023ms after FLR; waiting", "gpu_reset", PCI, "not ready"),
        (f"NVRM: GPU {PCI}: RmInitAdapter failed! (0x62:0x40:2393)", "init_failed", PCI, "RmInit"),
        (
            "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19 18:56:32",
            "driver_load",
            "",
            "535.129.03",
        ),
        (
            "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  550.54.15  Release Build",
            "driver_load",
            "",
            "550.54.15",
        ),
        ("nvidia-modeset: Unloading", "driver_unload", "", "nvidia-modeset"),
        (
            "NVRM: API mismatch: the client has the version 535.54.03, but",
            "api_mismatch",
            "",
            "the client has the version 535.54.03",
        ),
        (
            "NVRM: knvlinkCoreShutdownDeviceLinks_IMPL: Need to shutdown all links for GPU1",
            "nvlink",
            "",
            "shutdown all links",
        ),
        ("NVRM: GPU0 fabric probe: registration failed", "fabric", "", "failed"),
        (
            "mlx5_core 0000:5e:00.0: Port module event[error]: module 0, Cable error",
            "port_module",
            "0000:5e:00.0",
            "Port module event[error]",
        ),
        (
            "pcieport 0000:00:1c.0: pciehp: Slot(0-1): Link Down",
            "pcie_link_down",
            "0000:00:1c.0",
            "Slot(0-1)",
        ),
        ("mce: [Hardware Error]: Machine check events logged", "machine_check", "", "Machine"),
    ],
)
def test_driver_and_bus_lines(line: str, kind: str, pci: str, detail: str) -> None:
    fact = parse(line)
    assert fact is not None
    assert (fact.kind, fact.pci) == (kind, pci)
    assert fact.detail.startswith(detail)


@pytest.mark.parametrize(
    ("line", "severity"),
    [
        (f"pcieport 0000:b2:00.0: AER: Multiple Corrected error received: {PCI}", "corrected"),
        (f"pcieport 0000:b2:00.0: AER: Uncorrected (Non-Fatal) error received: {PCI}", "nonfatal"),
        (
            f"pcieport 0000:b2:00.0: AER: Uncorrectable (Fatal) error message received from {PCI}",
            "fatal",
        ),
        (f"nvidia {PCI}: PCIe Bus Error: severity=Corrected, type=Physical Layer", "corrected"),
        (f"nvidia {PCI}: AER: PCIe Bus Error: severity=Uncorrected (Fatal), type=x", "fatal"),
    ],
)
def test_aer_names_the_device_at_fault(line: str, severity: str) -> None:
    fact = parse(line)
    assert fact is not None
    assert (fact.kind, fact.pci, fact.severity) == ("aer", PCI, severity)


@pytest.mark.parametrize(
    ("line", "kind", "pid", "name"),
    [
        ("Out of memory: Killed process 123 (python) ...", "oom_kill", 123, "python"),
        ("Out of memory: Killed process 7 (a) total-vm:1kB, anon-rss:3kB", "oom_kill", 7, "a"),
        ("Memory cgroup out of memory: Killed process 7 (a), UID 0, t", "oom_kill", 7, "a"),
        ("Out of memory: Kill process 12 (my (odd) x) score 900 or", "oom_kill", 12, "my (odd) x"),
        (
            "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),oom_memcg=/k,task_memcg=/k/a,"
            "task=pt_main_thread,pid=4242,uid=0",
            "oom_kill",
            4242,
            "pt_main_thread",
        ),
        (
            "INFO: task nvidia-smi:99 blocked for more than 120 seconds.",
            "hung_task",
            99,
            "nvidia-smi",
        ),
        ("python[77]: segfault at 0 ip 0000 sp 000 error 4 in libcuda", "segfault", 77, "python"),
        ("e1000e 0000:00:1f.6 eno1: NIC Link is Down", "link_down", None, "eno1"),
        ("mlx5_core 0000:5e:00.0 eth0: Link down", "link_down", None, "eth0"),
        ("eth0: Link is Down", "link_down", None, "eth0"),
        ("bond0: (slave eth1): link status definitely down, dis", "link_down", None, "eth1"),
        ("ixgbe 0000:03:00.0 eth0: NIC Link is Up 10 Gbps", "link_up", None, "eth0"),
        ("IPv6: ADDRCONF(NETDEV_CHANGE): ib0: link becomes ready", "link_up", None, "ib0"),
        ("EXT4-fs error (device nvme0n1p1): ext4_find_entry:1", "fs_error", None, "nvme0n1p1"),
        ("XFS (dm-0): Corruption detected. Unmount and run", "fs_error", None, "dm-0"),
        ("blk_update_request: I/O error, dev sda, sector 12", "io_error", None, "sda"),
        ("Buffer I/O error on dev sda1, logical block 0", "io_error", None, "sda1"),
        ("nvme nvme0: I/O 123 QID 4 timeout, aborting", "io_error", None, "nvme0"),
        ("nfs: server 10.0.0.1 not responding, still trying", "nfs_stalled", None, "10.0.0.1"),
        ("nfs: server 10.0.0.1 OK", "nfs_recovered", None, "10.0.0.1"),
    ],
)
def test_who_or_what_the_line_is_about(line: str, kind: str, pid: int | None, name: str) -> None:
    fact = parse(line)
    assert fact is not None
    assert (fact.kind, fact.pid, fact.name) == (kind, pid, name)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "ata1: SATA link down (SStatus 0 SControl 300)",
        "IPv6: ADDRCONF(NETDEV_UP): eth0: link is not ready",
        "docker0: port 1(veth1234) entered disabled state",
        "nvidia-nvlink: Nvlink Core is being initialized, major device number 510",
        "usb 1-1: reset high-speed USB device number 2 using xhci_hcd",
        "NVRM: Xid (PCI:0000:c1:00): garbled",
        "NVRM: Xid (PCI:zz): 79, pid=1",
        "NVRM: Xid (",
        "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): garbled, Fatal",
        "Out of memory: Killed process",
        "XFS (sda1): Mounting V5 Filesystem",
    ],
)
def test_what_is_no_fact(line: str) -> None:
    assert parse(line) is None


PIECES = [XID79, "NVRM: ", "Xid (PCI:", "SXid (", "AER: ", "Killed process ", "oom-kill:", "reset"]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=20)), max_size=8))
def test_no_line_makes_it_crash(pieces: list[str]) -> None:
    fact = parse("".join(pieces))
    assert fact is None or fact.pci == normalise_pci(fact.pci)
