from gpudiag.agent.expected import ExpectedGpus
from gpudiag.agent.inventory import FORGET_SECONDS, SETTLE_SECONDS, AfterGpus, Inventory
from gpudiag.probes import Sample, labels
from gpudiag.probes.processes import Watched

INFO = labels(uuid="GPU-1", gpu="1", pci_bus_id="00000000:3B:00.0")


def on_gpu(pid, name, time=1.0):
    of = labels(uuid="GPU-1", gpu="1", pid=str(pid), process=name)
    return Sample("gpudiag_gpu_process_memory_bytes", of, time, 1e9)


def test_a_bus_address_names_its_gpu_in_any_spelling():
    inventory = Inventory()
    inventory.observe([Sample("gpudiag_gpu_info", INFO, 1.0, 1.0)], [])
    assert inventory.identify("0000:3b:00.0") == labels(uuid="GPU-1", gpu="1")
    assert inventory.identify("0000:43:00.0") is None


def test_trainers_have_loaders_and_servers_do_not(tmp_path):
    for pid in (10, 20):
        (tmp_path / f"{pid}/task/{pid}").mkdir(parents=True)
        (tmp_path / f"{pid}/task/{pid}/children").write_text(f"{pid + 1} {pid + 2} ")
    inventory = Inventory(proc=tmp_path)
    inventory.observe(
        [on_gpu(10, "python"), on_gpu(12, "python"), on_gpu(20, "VLLM::EngineCore")], []
    )
    assert inventory.watched() == [
        Watched(10, "trainer"),
        Watched(11, "loader"),
        Watched(12, "trainer"),
        Watched(20, "server"),
    ]


def test_a_process_that_left_the_gpu_is_forgotten():
    inventory = Inventory()
    inventory.observe([on_gpu(10, "python", 1.0)], [])
    inventory.observe([on_gpu(11, "python", 2.0 + FORGET_SECONDS)], [])
    assert inventory.pids() == [11]


def rank_of(pid, value=1.0):
    return Sample("gpudiag_train_info", labels(job="llama", rank="3", pid=str(pid)), 1.0, value)


def test_a_rank_is_watched_by_its_name_with_or_without_a_gpu(tmp_path):
    (tmp_path / "30/task/30").mkdir(parents=True)
    (tmp_path / "30/task/30/children").write_text("31 ")
    inventory = Inventory(proc=tmp_path)
    inventory.observe([rank_of(30)], [])
    assert inventory.watched() == [
        Watched(30, "trainer", "llama", "3"),
        Watched(31, "loader", "llama", "3"),
    ]
    inventory.observe([rank_of(30, float("nan"))], [])
    assert inventory.watched() == []


def test_the_gpu_of_a_process():
    inventory = Inventory()
    inventory.observe([on_gpu(10, "python")], [])
    assert (inventory.gpu_of(10), inventory.gpu_of(11)) == ("GPU-1", "")


def test_the_memory_of_a_process_on_each_of_its_gpus():
    inventory = Inventory()
    inventory.observe([on_gpu(10, "python", 5.0)], [])
    assert inventory.memory_of(10, "GPU-1") == (5.0, 1e9)
    assert inventory.memory_of(10, "GPU-2") is None
    assert inventory.memory_of(11, "GPU-1") is None


class Spoken:
    name, cadence = "kmsg", 0.2
    metrics: frozenset[str] = frozenset()

    def read(self):
        return ["line"]

    def close(self):
        pass


def test_the_kernel_log_waits_for_the_gpus_but_not_for_ever():
    time = [0.0]
    inventory = Inventory(monotonic=lambda: time[0])
    probe = AfterGpus(Spoken(), inventory)
    assert not list(probe.read())
    time[0] = SETTLE_SECONDS
    assert len(list(probe.read())) == 1


def test_the_kernel_log_is_read_as_soon_as_the_gpus_are_known():
    inventory = Inventory()
    probe = AfterGpus(Spoken(), inventory)
    inventory.observe([Sample("gpudiag_gpu_info", INFO, 1.0, 1.0)], [])
    assert len(list(probe.read())) == 1


def test_the_expected_number_is_remembered(tmp_path):
    ExpectedGpus(tmp_path / "n").observe([Sample("gpudiag_gpus_expected", (), 1.0, 8.0)], [])
    assert ExpectedGpus(tmp_path / "n").count == 8


def test_an_unreadable_number_is_none(tmp_path):
    (tmp_path / "n").write_text("eight")
    assert ExpectedGpus(tmp_path / "n").count == 0
