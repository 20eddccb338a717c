# SPDX-License-Identifier: Apache-2.0
"""What the daemon says of stock PyTorch on NCCL when a rank does not come to a collective: two ranks that share the
first GPU start over the daemon's port, rank 1 stays away, and the watchdog of the other one times out after 8 s.

    C10DD_BIN=DIR/bin watchdog_torch.py

Prints each new sentence with its time. Exit code 1 if no sentence says that a rank has given up."""
import datetime
import json
import os
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../integration"))
from daemon import BIN, Daemon  # noqa: E402
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from one_gpu import variables_of  # noqa: E402


def work():
    import torch
    from torch import distributed
    torch.cuda.set_device(0)
    distributed.init_process_group("nccl", timeout=datetime.timedelta(seconds=8))
    distributed.all_reduce(torch.ones(4, device="cuda"))
    torch.cuda.synchronize()
    print(f"rank {distributed.get_rank()} trains", flush=True)
    if distributed.get_rank() == 0:
        distributed.all_reduce(torch.ones(4, device="cuda"))
        torch.cuda.synchronize()
    time.sleep(60)  # rank 1 stays away, until main() kills it


def main():
    with Daemon(environment={**os.environ, "LD_LIBRARY_PATH": os.path.join(BIN, "../lib")}) as daemon, tempfile.TemporaryDirectory() as folder:
        variables = {**os.environ, "MASTER_ADDR": daemon.address[0], "MASTER_PORT": str(daemon.address[1]),
                     "WORLD_SIZE": "2", "TORCHELASTIC_USE_AGENT_STORE": "True",  # rank 0 hosts no store
                     "TORCH_NCCL_DUMP_ON_TIMEOUT": "1",
                     "TORCH_FR_BUFFER_SIZE": "100", "TORCH_FR_DUMP_TEMP_FILE": os.path.join(folder, "trace_"),
                     "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": os.path.join(folder, "trace_")}
        errors = [open(os.path.join(folder, f"errors_{rank}"), "w+", encoding="utf-8") for rank in range(2)]
        ranks = [subprocess.Popen([sys.executable, __file__, "rank"], stderr=errors[rank],
                                  env={**variables, **variables_of(rank), "RANK": str(rank)})
                 for rank in range(2)]
        begin, seen = time.monotonic(), []
        while time.monotonic() < begin + 70 and any(one.poll() is None for one in ranks):
            for job in json.loads(daemon.http("/v1/jobs")[1])["jobs"]:
                sentence = job["diagnosis"].get("sentence", job["diagnosis"]["state"])
                if not seen or seen[-1] != sentence:
                    seen.append(sentence)
                    print(f"{time.monotonic() - begin:5.1f} s  {sentence}", flush=True)
            if any("has given up" in one for one in seen) and time.monotonic() > begin + 45:
                break
            time.sleep(0.1)
        print("exit codes", [one.poll() for one in ranks], "records",
              sorted(name for name in os.listdir(folder) if name.startswith("trace_")))
        for one, file in zip(ranks, errors):
            one.kill()
            one.wait()
            file.seek(0)
            print(*file.readlines()[-3:], sep="", end="")
            file.close()
        return 0 if any("has given up" in one for one in seen) else 1


if __name__ == "__main__":
    sys.exit(work() if len(sys.argv) > 1 else main())
