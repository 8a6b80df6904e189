import subprocess
import sys

# The small block last: on a heap it would keep all below it.
_CODE = """
from gpudiag.agent.allocator import be_thrifty; be_thrifty()
import numpy as np

def mib():
    return int(open("/proc/self/statm").read().split()[1]) // 256

before = mib()
np.ones(4_000_000)
large = [np.ones(100_000) for _ in range(50)]
small = bytearray(100_000)
del large
print(mib() - before)
"""


def test_large_blocks_go_back_to_the_system_once_freed():
    done = subprocess.run([sys.executable, "-c", _CODE], capture_output=True, check=True)
    assert int(done.stdout) < 10
